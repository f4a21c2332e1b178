# Measuring: which runs can be measured here, and the measurement of each case, a process each.


localrules:
    probe_run,


checkpoint probe_run:
    output:
        run=f"{RESULTS}/{{run}}/run.json",
    log:
        f"{LOGS}/{{run}}/probe.log",
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        spec=lambda wildcards: PLAN.run_json(wildcards.run),
    message:
        "Looking at run {wildcards.run}"
    shell:
        "{params.python:q} {params.scripts:q}/probe_run.py --run-spec {params.spec:q} --output {output.run:q} 2> {log:q}"


rule profile_case:
    input:
        run=ancient(f"{RESULTS}/{{run}}/run.json"),
        script=f"{SCRIPTS}/profile_case.py",
    output:
        case=f"{RESULTS}/{{run}}/{{case}}/{{process}}/case.json",
        measurement=f"{RESULTS}/{{run}}/{{case}}/{{process}}/measurement.json",
    log:
        f"{LOGS}/{{run}}/{{case}}/{{process}}.profile.log",
    container:
        lambda wildcards: PLAN.container_of(wildcards.run)
    # the machine is the measurement's alone
    threads: workflow.resource_settings.cores or 1
    resources:
        gpu=int(CONFIG.device != "cpu"),
        runtime=lambda wildcards: minutes_of(wildcards.case),
    params:
        python=measuring_python,
        build=build_of,
        only_in=only_in,
        stale=lambda wildcards: PLAN.makes_stale(wildcards.run, wildcards.case, wildcards.process),
        # Snakemake leaves functions of `output` out of its comparison with the last execution: `stale` is what counts
        spec=lambda wildcards, output: PLAN.case_json(wildcards.run, wildcards.case, wildcards.process),
        device=lambda wildcards, output: CONFIG.device,
        cache=lambda wildcards: f"{RESULTS}/{wildcards.run}/cache",
        folder=subpath(output.measurement, parent=True),
    message:
        "Measuring {wildcards.case} on {wildcards.run}, process {wildcards.process}"
    shell:
        "printf '%s' {params.spec:q} > {output.case:q} && "
        "{params.python} {input.script:q} --case-file {output.case:q} --device {params.device}"
        " --output {params.folder:q} --cache-dir {params.cache:q} {params.only_in} 2> {log:q}"
        # stopped, as by Ctrl-C, it leaves a failed row that Snakemake would take for finished
        " || {{ status=$?; rm -f {output.measurement:q}; exit $status; }}"
