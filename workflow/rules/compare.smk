# Two environments, workloads or commits measured in turns: snakemake compare --config 'compare={a: main, b: .}'

COMPARED = f"{PREFIX}results/compare"


def compare_words(wildcards):
    """The arguments of compare.py, as the section `compare` of the configuration states them."""
    wishes = CONFIG.compare
    if not {"a", "b"} <= set(wishes):
        raise WorkflowError("compare.a and compare.b must be set: --config 'compare={a: main, b: .}'")
    words = [wishes["a"], wishes["b"], "--output", COMPARED]
    for key, option in (("budget_s", "--budget"), ("width", "--width"), ("min_change", "--min-change")):
        words += [option, str(wishes[key])] if key in wishes else []
    words += ["--fail-on", ",".join(wishes["fail_on"])] if "fail_on" in wishes else []
    words += ["--cases", ",".join(CONFIG.only_cases)] if CONFIG.only_cases else []
    return shlex.join([*words, f"--apptainer-args={workflow.deployment_settings.apptainer_args}"])


rule compare:
    log:
        "logs/compare.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        words=compare_words,
        folder=COMPARED,
        settings=json.dumps(
            {key: raw[key] for key in ("measure", "cases", "device", "threads", "images") if key in raw}
        ),
    message:
        "Comparing: {params.words}"
    shell:
        "mkdir -p {params.folder:q} && printf '%s' {params.settings:q} > {params.folder:q}/settings.json\n"
        "{params.python:q} {params.scripts:q}/compare.py {params.words} --config {params.folder:q}/settings.json"
        " --no-exit-status 2>&1 | tee {log:q}"
