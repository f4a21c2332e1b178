# Gets all images before anything is measured: for nodes that reach no registry, run this on a machine that does.


rule pull_images:
    input:
        [f"{RESULTS}/{run.name}/run.json" for run in CONFIG.runs if run.kind == "container"],
    log:
        "logs/pull_images.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
    message:
        "What the images hold"
    shell:
        "{params.python:q} {params.scripts:q}/pull_images.py {input:q} 2>&1 | tee {log:q}"
