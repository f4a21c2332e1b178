# What several rules ask of the plan.


def measurement(wildcards):
    """The measurement of one process, or nothing where the run was lost."""
    run = checkpoints.probe_run.get(run=wildcards.run).output.run
    lost = json.loads(Path(run).read_text(encoding="utf-8"))["status"] == "lost"
    return [] if lost else PLAN.measurement_of(wildcards.run, wildcards.case, wildcards.process).as_posix()
