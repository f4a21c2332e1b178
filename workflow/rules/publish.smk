# The site of all nights: after a night, or by itself from the history (snakemake publish).


rule publish_night:
    input:
        f"{NIGHT}/changes.json",
    output:
        f"{NIGHT}/published.json",
    log:
        f"{LOGS}/publish.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        night=EDITION,
        history=HISTORY,
        rules=night_settings("history"),
        publish=night_settings("publish"),
        reports=f"{PREFIX}reports",
    message:
        "Publishing the nights up to {params.night}"
    shell:
        "{params.python:q} {params.scripts:q}/publish_site.py --history {params.history:q} --rules {params.rules:q}"
        " --reports {params.reports:q} --publish {params.publish:q} --tell {params.night:q} --receipt {output:q} 2> {log:q}"


rule publish:
    log:
        "logs/publish.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        history=HISTORY,
        rules=night_settings("history"),
        publish=night_settings("publish"),
        reports=f"{PREFIX}reports",
    message:
        "Publishing the nights"
    shell:
        "{params.python:q} {params.scripts:q}/publish_site.py --history {params.history:q} --rules {params.rules:q}"
        " --reports {params.reports:q} --publish {params.publish:q} 2> {log:q}"


rule nightly:
    input:
        [] if FINISHED_BEFORE else f"{NIGHT}/published.json",
    localrule: True
    params:
        night=EDITION,
    message:
        "Night {params.night} is finished"
