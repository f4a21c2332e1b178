# A night: its edition appended to the history and judged against the nights before. The history is never an output of a
# rule, since Snakemake deletes outputs before it makes them again; a receipt among the results is.

NIGHT = f"{RESULTS}/night"
FINISHED_BEFORE = finished(EDITION, Path(HISTORY), PLAN.results / "night" / "published.json")


rule record_night:
    input:
        edition=f"{RESULTS}/edition",
        report=f"{MADE_REPORT}/index.html",
    output:
        f"{NIGHT}/recorded.json",
    log:
        f"{LOGS}/record.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        history=HISTORY,
        lines=night_settings("history", "lines"),
        night=EDITION,
    message:
        "Recording night {params.night}"
    shell:
        "{params.python:q} {params.scripts:q}/record_night.py --edition-dir {input.edition:q}"
        " --history {params.history:q} --lines {params.lines:q} --receipt {output:q} 2> {log:q}"


# Suspects are measured again before the night ends, with more processes (schedule.confirm).


checkpoint find_suspects:
    input:
        f"{NIGHT}/recorded.json",
    output:
        suspects=f"{NIGHT}/suspects.json",
    log:
        f"{LOGS}/suspects.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        night=EDITION,
        history=HISTORY,
        rules=night_settings("history"),
    message:
        "Looking for suspects of night {params.night}"
    shell:
        "{params.python:q} {params.scripts:q}/detect_changes.py --history {params.history:q} --night {params.night:q}"
        " --rules {params.rules:q} --suspects {output.suspects:q} 2> {log:q}"


rule record_confirmation:
    input:
        edition=f"{RESULTS}/edition",
        suspects=f"{NIGHT}/suspects.json",
        measurements=measurements_again,
    output:
        f"{NIGHT}/confirmed.json",
    log:
        f"{LOGS}/confirmed.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        history=HISTORY,
        lines=night_settings("history", "lines"),
        processes=f"{AGAIN[0]} {AGAIN[-1]}" if AGAIN else "",
        night=EDITION,
    message:
        "Recording what was measured again in night {params.night}"
    shell:
        "{params.python:q} {params.scripts:q}/record_confirmation.py --edition-dir {input.edition:q}"
        " --history {params.history:q} --suspects {input.suspects:q} --processes {params.processes}"
        " --lines {params.lines:q} --receipt {output:q} 2> {log:q}"


rule detect_changes:
    input:
        f"{NIGHT}/{'confirmed' if AGAIN else 'recorded'}.json",
    output:
        f"{NIGHT}/changes.json",
    log:
        f"{LOGS}/changes.log",
    localrule: True
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        scripts=SCRIPTS,
        night=EDITION,
        history=HISTORY,
        rules=night_settings("history"),
    message:
        "Judging night {params.night}"
    shell:
        "{params.python:q} {params.scripts:q}/detect_changes.py --history {params.history:q} --night {params.night:q}"
        " --rules {params.rules:q} --output {output:q} 2> {log:q}"
