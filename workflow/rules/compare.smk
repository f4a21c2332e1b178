# Two environments, workloads or commits measured in turns: snakemake compare --config 'compare={a: main, b: .}'


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
