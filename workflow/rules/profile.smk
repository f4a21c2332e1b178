# Measuring: which runs can be measured here, and the measurement of each case, a process each.


checkpoint probe_run:
    output:
        run=f"{RESULTS}/{{run}}/run.json",
    log:
        f"{LOGS}/{{run}}/probe.log",
    wildcard_constraints:
        run=NAME,
    localrule: True
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
    wildcard_constraints:
        run=NAME,
        case=NAME,
        process="[0-9]+",
    # a job that is killed as a whole is run once more; the third try only writes down that both were lost,
    # which is also all that happens after the deadline of a night
    retries: 2
    localrule: DEADLINE_PASSED
    conda:
        "../envs/host.yaml"
    # the machine is the measurement's alone, or is shared by measurements on GPUs of their own
    threads: lambda wildcards: cores_of(wildcards.case)
    resources:
        gpu=lambda wildcards: gpus_of(wildcards.case),
        runtime=lambda wildcards: minutes_of(wildcards.case),
        attempt=lambda wildcards, attempt: 3 if DEADLINE_PASSED else attempt,
    params:
        python=measuring_python,
        build=build_of,
        only_in=only_in,
        stale=lambda wildcards: PLAN.makes_stale(wildcards.run, wildcards.case, wildcards.process),
        # Snakemake leaves functions of `output` out of its comparison with the last execution: `stale` is what counts
        spec=lambda wildcards, output: PLAN.case_json(wildcards.run, wildcards.case, wildcards.process),
        device=lambda wildcards, output: CONFIG.device,
        start=container_start,
        host_python=lambda wildcards, output: PYTHON,
        finish=lambda wildcards, output: f"{SCRIPTS}/finish_measurement.py",
        one_gpu=lambda wildcards, output: "--one-gpu" if AT_ONCE > 1 else "",
        cache=lambda wildcards: f"{PLAN.results}/{wildcards.run}/cache",
        folder=subpath(output.measurement, parent=True),
    message:
        "Measuring {wildcards.case} on {wildcards.run}, process {wildcards.process}"
    # the container is started here and not by `container:`, so that one that does not start leaves a failed row too
    shell:
        # stopped with its process, the shell outlives it, so that the failed row that this leaves is removed
        "trap : HUP TERM\n"
        "ended=\n"
        "if [ {resources.attempt} -lt 3 ]; then\n"
        "  printf '%s' {params.spec:q} > {output.case:q}\n"
        "  ended='--status 0'\n"
        "  {params.start} {params.python} {input.script:q} --case-file {output.case:q} --device {params.device}"
        ' --output {params.folder:q} --cache-dir {params.cache:q} {params.only_in} {params.one_gpu} 2> {log:q} || ended="--status $?"\n'
        "fi\n"
        "{params.host_python:q} {params.finish:q} --case-spec {params.spec:q} $ended --log {log:q}"
        " --output {params.folder:q}"
