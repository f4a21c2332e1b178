# Extraction: one process of one case becomes tables; a run that was lost leaves its rows all the same.


def measurement(wildcards):
    """The measurement of one process, or nothing where the run was lost."""
    with checkpoints.probe_run.get(run=wildcards.run).output.run.open() as file:
        lost = json.load(file)["status"] == "lost"
    return [] if lost else PLAN.measurement_of(wildcards.run, wildcards.case, wildcards.process).as_posix()


rule extract_case:
    input:
        run=f"{RESULTS}/{{run}}/run.json",
        measurement=measurement,
        code=glob("scripts/kernelbook/trace/*.py") + ["scripts/kernelbook/case_tables.py"],
    output:
        multiext(f"{RESULTS}/{{run}}/{{case}}/{{process}}/", *(f"{table}.parquet" for table in TABLES)),
    log:
        f"{LOGS}/{{run}}/{{case}}/{{process}}.extract.log",
    params:
        python=PYTHON,
        spec=lambda wildcards: PLAN.case_json(wildcards.run, wildcards.case, wildcards.process),
        folder=f"{RESULTS}/{{run}}/{{case}}/{{process}}",
    conda:
        "../envs/host.yaml"
    message:
        "Reading {wildcards.case} on {wildcards.run}, process {wildcards.process}"
    shell:
        "{params.python:q} scripts/extract_case.py --run-file {input.run:q} --case-spec {params.spec:q}"
        " --process {wildcards.process} --output {params.folder:q} --measurement {input.measurement:q} 2> {log:q}"
