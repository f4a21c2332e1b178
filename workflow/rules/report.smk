# The edition's tables brought together and judged, and the report of them. Snakemake deletes the outputs of a rule before
# it runs, so the report that users see is none: a failed rendering leaves the last one there. The outputs are hard links
# to its files, among the results.

MADE_REPORT = f"{RESULTS}/report"
PARTS = ("index.html", "report.md", "details.md", "summary.md", "summary.json", "figures", "tables")
if workflow.is_main_process and not all(os.path.exists(f"{REPORT}/{part}") for part in PARTS):
    Path(PLAN.results, "report", "index.html").unlink(
        missing_ok=True
    )  # so that what was deleted by hand is rendered again


rule write_plan:
    output:
        f"{RESULTS}/plan.json",
    log:
        f"{LOGS}/plan.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        digest=digest(plan_json(PLAN)),
        # functions of `output` are left out of the reasons for a job that Snakemake prints
        plan=lambda wildcards, output: plan_json(PLAN),
    message:
        "Writing {output}"
    shell:
        "printf '%s\\n' {params.plan:q} > {output:q} 2> {log:q}"


rule collect_edition:
    input:
        script=f"{SCRIPTS}/collect_edition.py",
        plan=f"{RESULTS}/plan.json",
        runs=[f"{RESULTS}/{run.name}/run.json" for run in PLAN.runs_with_cases()],
        tables=[f"{RESULTS}/{run.name}/tables.json" for run in PLAN.runs_with_cases()],
        published=[local(PLAN.source_of(run).as_posix()) for run in PLAN.runs if run.kind == "published"],
    output:
        directory(f"{RESULTS}/edition"),
    log:
        f"{LOGS}/collect.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        code=CODE,
        results=subpath(output[0], parent=True),
    message:
        "Collecting {params.results}"
    shell:
        "{params.python:q} {input.script:q} --plan {input.plan:q} --results {params.results:q}"
        " --output {output:q} 2> {log:q}"


rule render_report:
    input:
        script=f"{SCRIPTS}/render_report.py",
        edition=f"{RESULTS}/edition",
    output:
        page=report(f"{MADE_REPORT}/index.html", caption="../report/page.rst", category="Report", labels={"as": "page"}),
        markdown=report(
            f"{MADE_REPORT}/report.md", caption="../report/markdown.rst", category="Report", labels={"as": "Markdown"}
        ),
        details=f"{MADE_REPORT}/details.md",
        comment=report(
            f"{MADE_REPORT}/summary.md", caption="../report/comment.rst", category="Report", labels={"as": "comment"}
        ),
        summary=report(
            f"{MADE_REPORT}/summary.json", caption="../report/summary.rst", category="Report", labels={"as": "JSON"}
        ),
        figures=report(
            directory(f"{MADE_REPORT}/figures"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        tables=report(
            directory(f"{MADE_REPORT}/tables"),
            patterns=["{table}.csv"],
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        f"{LOGS}/render.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        code=CODE,
        report=REPORT,
        made=subpath(output.page, parent=True),
    message:
        "Writing {params.report}/index.html"
    shell:
        "{params.python:q} {input.script:q} --edition-dir {input.edition:q} --output {params.report:q} 2> {log:q}\n"
        "rm -rf {params.made:q} && mkdir -p {params.made:q}\n"
        # hard links are refused where reports/ lies in another file system
        "cp -al {params.report:q}/. {params.made:q} 2> /dev/null || cp -a {params.report:q}/. {params.made:q} 2>> {log:q}"
