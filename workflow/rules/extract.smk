# The tables of each run: one job, once the run's measurements are there.


rule write_inputs:
    output:
        f"{RESULTS}/{{run}}/inputs.json",
    log:
        f"{LOGS}/{{run}}/inputs.log",
    wildcard_constraints:
        run=NAME,
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        digest=lambda wildcards: digest(inputs_json(PLAN, wildcards.run)),
        # functions of `output` are left out of the reasons for a job that Snakemake prints
        inputs=lambda wildcards, output: inputs_json(PLAN, wildcards.run),
    message:
        "Listing the processes of {wildcards.run}"
    shell:
        "printf '%s\\n' {params.inputs:q} > {output:q} 2> {log:q}"


rule extract_run:
    input:
        script=f"{SCRIPTS}/extract_run.py",
        run=f"{RESULTS}/{{run}}/run.json",
        inputs=f"{RESULTS}/{{run}}/inputs.json",
        measurements=measurements,
    output:
        # the tables themselves are no outputs, since Snakemake would delete them before each job
        f"{RESULTS}/{{run}}/tables.json",
    log:
        f"{LOGS}/{{run}}/extract.log",
    wildcard_constraints:
        run=NAME,
    localrule: True
    conda:
        "../envs/host.yaml"
    threads: 4
    params:
        python=PYTHON,
        folder=subpath(output[0], parent=True),
        code=READING_CODE,
    message:
        "Reading {wildcards.run}"
    shell:
        "{params.python:q} {input.script:q} --inputs {input.inputs:q} --run-file {input.run:q} --output {params.folder:q}"
        ' --logs "$(dirname {log:q})" --code {params.code} --workers {threads} 2> {log:q}'
