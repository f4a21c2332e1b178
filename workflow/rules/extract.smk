# Extraction: one process of one case becomes tables; a run that was lost leaves its rows all the same.


localrules:
    extract_case,


rule extract_case:
    input:
        script=f"{SCRIPTS}/extract_case.py",
        run=f"{RESULTS}/{{run}}/run.json",
        measurement=watched_measurement,
        code=PLAN.code_behind(f"{SCRIPTS}/extract_case.py"),
    output:
        multiext(f"{RESULTS}/{{run}}/{{case}}/{{process}}/", *(f"{table}.parquet" for table in TABLES)),
    log:
        f"{LOGS}/{{run}}/{{case}}/{{process}}.extract.log",
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        spec=lambda wildcards: PLAN.case_json(wildcards.run, wildcards.case, wildcards.process),
        measurement=measurement,
        folder=f"{RESULTS}/{{run}}/{{case}}/{{process}}",
    message:
        "Reading {wildcards.case} on {wildcards.run}, process {wildcards.process}"
    # if it is killed, or fails for a reason that is not foreseen, the second call writes the failed row of the process
    shell:
        "extract() {{ {params.python:q} {input.script:q} --run-file {input.run:q} --case-spec {params.spec:q}"
        ' --process {wildcards.process} --output {params.folder:q} --measurement {params.measurement:q} "$@"; }}\n'
        "extract 2> {log:q} || extract --ended $? --log {log:q}"
