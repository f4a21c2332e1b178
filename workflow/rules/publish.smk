# The site of all nights: after a night, or by itself from the history (snakemake publish).

PUBLISH_SITE = (
    "{params.python:q} {SCRIPTS:q}/publish_site.py --history {params.history:q} --rules {params.rules:q}"
    " --publish {params.publish:q}"
)


localrules:
    publish_night,
    publish,
    nightly,


rule publish_night:
    input:
        f"{NIGHT}/changes.json",
    output:
        f"{NIGHT}/published.json",
    log:
        f"{LOGS}/publish.log",
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        history=HISTORY,
        rules=json.dumps(NIGHTS["history"], sort_keys=True),
        publish=json.dumps(NIGHTS["publish"], sort_keys=True),
    message:
        "Publishing the nights up to {EDITION}"
    shell:
        PUBLISH_SITE + " --tell {EDITION:q} --receipt {output:q} 2> {log:q}"


rule publish:
    conda:
        "../envs/host.yaml"
    params:
        python=PYTHON,
        history=HISTORY,
        rules=json.dumps(NIGHTS["history"], sort_keys=True),
        publish=json.dumps(NIGHTS["publish"], sort_keys=True),
    message:
        "Publishing the nights"
    shell:
        PUBLISH_SITE


rule nightly:
    input:
        [] if finished(EDITION, Path(HISTORY), Path(NIGHT, "published.json")) else f"{NIGHT}/published.json",
    message:
        "Night {EDITION} is finished"


def exit_status():
    """How the workflow ends: as the night was judged, or 4 where a report lost a whole run."""
    targets = workflow.dag_settings.targets
    if "publish" in targets or "pull_images" in targets:
        return 0
    night = ["--night", f"{NIGHT}/changes.json"] if "nightly" in targets else []
    command = [PYTHON, f"{SCRIPTS}/edition_status.py", "--edition-dir", f"{RESULTS}/edition"]
    return subprocess.call([*command, "--report", f"{REPORT}/index.html", *night])
