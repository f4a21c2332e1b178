# Names and functions that several rules share.
EDITION = CONFIG.edition
RESULTS = f"results/{EDITION}"  # as rules name it: Snakemake puts the prefix of a module before it, PLAN has it already
REPORT = f"{PREFIX}reports/{EDITION}"
NAME = "[a-z][a-z0-9.-]*"
LOGS = f"logs/{EDITION}"
PYTHON = host_python()
SCRIPTS = PLAN.ours("scripts")
CORES = workflow.resource_settings.cores
AT_ONCE = measurements_at_once(CORES, CONFIG.device, os.environ.get("CUDA_VISIBLE_DEVICES"))
CODE = PLAN.digest_of_code()
READING_CODE = PLAN.digest_of_code(
    without=("api", "cli", "compare", "diffs", "edition", "history", "judge", "reference", "report", "summarize")
)
DEADLINE_PASSED = DEADLINE_VARIABLE in os.environ  # of the night: what is not measured counts as failed
CONFIRM = 0 if DEADLINE_PASSED else CONFIG.nights.get("schedule", {}).get("confirm", 10)
AGAIN = range(CONFIG.repeats + 1, CONFIG.repeats + 1 + CONFIRM)  # numbers of the processes that measure suspects again
HISTORY = CONFIG.nights.get("history", {}).get("folder", "history")
COMPARED = f"{PREFIX}results/compare"


def run_status(wildcards):
    """run.json of a run, once it has been looked at."""
    found = Path(checkpoints.probe_run.get(run=wildcards.run).output.run)
    try:
        return json.loads(found.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WorkflowError(f"{found}: is no JSON ({error}): delete it, and the run is looked at again") from error


def measurements(wildcards):
    """What the tables of a run are made from, as far as Snakemake can watch it; nothing if the run was lost."""
    if run_status(wildcards)["status"] == "lost":
        return []
    rows = [row for row in PLAN.rows() if row[0] == wildcards.run]
    if CONFIG.run(wildcards.run).kind != "recorded":
        return [f"{RESULTS}/{run}/{case}/{process}/measurement.json" for run, case, process in rows]
    files = [file.as_posix() for row in rows for file in (*PLAN.files_of(*row), *PLAN.counters_of(*row))]
    # such a folder may also hold pipes and names with braces
    return [local(file) for file in files if file.isprintable() and "{" not in file and os.path.isfile(file)]


def build_of(wildcards):
    """The build that a container run is measured with: torch, and the image that it is in."""
    if CONFIG.run(wildcards.run).kind == "host":
        return ""  # see Plan.makes_stale
    status = run_status(wildcards)
    return f"{status['torch']} in {status['image_digest'] or status['image_stamp']}"


def measuring_python(wildcards):
    """The command that starts Python where torch is, with the number of CPU threads that is wanted."""
    run = CONFIG.run(wildcards.run)
    limits = thread_limits(CONFIG.threads, reaching(os.environ, run.kind == "container"))
    return f"{limits} {shlex.quote(PYTHON if run.kind == 'host' else run.python)}"


def container_start(wildcards, output):
    """The command that starts the container of a run, with its image; nothing for a run on the host."""
    image = PLAN.container_of(wildcards.run)
    return f"{IN_CONTAINER} {shlex.quote(image)}" if image else ""


def only_in(wildcards):
    """The argument by which a measurement is refused outside the container of its run."""
    image = PLAN.container_of(wildcards.run)
    return f"--require-container {Path(image).name}" if image else ""


def minutes_of(case):
    """How long a measurement may take on a cluster: each try and a counter pass up to the limit, and the start."""
    spec = CONFIG.case(case).measurement
    words = (CONFIG.counters, CONFIG.case(case).counters, *(run.counters for run in CONFIG.runs))
    counted = any(word is True for word in words)
    return 10 + int(spec["timeout_s"] * (1 + spec["retries"] + counted) / 60)


def gpus_of(case):
    """GPUs that a measurement of a case takes: one for each rank."""
    return CONFIG.case(case).gpus if CONFIG.device != "cpu" else 0


def cores_of(case):
    """Cores that a measurement of a case takes: the machine's share of each of its GPUs."""
    return min(CORES or 1, (CORES or 1) // AT_ONCE * max(1, gpus_of(case)))


def measurements_again(wildcards):
    """The second measurements of the suspects of this night."""
    suspects = json.loads(Path(checkpoints.find_suspects.get().output.suspects).read_text(encoding="utf-8"))
    return [f"{RESULTS}/{s['run']}/{s['case']}/{process}/measurement.json" for s in suspects for process in AGAIN]


def night_settings(section, key=None):
    """A section of the configuration about nights, or one key of it, as JSON."""
    found = CONFIG.nights.get(section, {})
    return json.dumps(found.get(key, {}) if key else found, sort_keys=True)


def exit_status():
    """How the workflow ends: as a night or a comparison was judged, or 4 where a report lost a whole run."""
    targets = set(workflow.dag_settings.targets)
    nightly = "nightly" in targets
    if "compare" in targets:
        return json.loads(Path(COMPARED, "compare.json").read_text(encoding="utf-8"))["exit_status"]
    if (nightly and FINISHED_BEFORE) or (not nightly and targets & {"publish", "pull_images"}):
        return 0
    night = ["--night", f"{NIGHT}/changes.json"] if nightly else []
    command = [PYTHON, f"{SCRIPTS}/edition_status.py", "--edition-dir", f"{RESULTS}/edition"]
    return subprocess.call([*command, "--report", f"{REPORT}/index.html", *night])


def say_how_to_go_on(log):
    """Print the last lines of a workflow that was stopped or that failed; the next Ctrl-C does not cut them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(5)  # those that end jobs print lines of their own
    logs = log if isinstance(log, str) else ", ".join(map(str, log))
    lines = [f"Complete log: {logs}", "Not finished. What was measured is kept, and is not measured again."]
    if os.path.exists(f"{REPORT}/index.html"):
        lines.append(f"The last report is still there: {REPORT}/index.html")
    command = os.environ.get("KERNELBOOK_COMMAND") or shlex.join(["snakemake", *sys.argv[1:]])
    print(without_secrets("\n".join([*lines, f"To go on: {command}"])), file=sys.stderr)


def compare_words(wildcards):
    """The arguments of compare.py, as the section `compare` of the configuration states them."""
    wishes = CONFIG.compare
    if not {"a", "b"} <= set(wishes):
        raise WorkflowError("compare.a and compare.b must be set: --config 'compare={a: main, b: .}'")
    words = [wishes["a"], wishes["b"], "--output", COMPARED]
    for key, option in (("budget_s", "--budget"), ("width", "--width"), ("min_change", "--min-change")):
        words += [option, str(wishes[key])] if key in wishes else []
    words += ["--fail-on", ",".join(wishes["fail_on"])] if "fail_on" in wishes else []
    words += ["--cases", ",".join(CONFIG.only_cases)] if CONFIG.only_cases else []
    return shlex.join([*words, f"--apptainer-args={workflow.deployment_settings.apptainer_args}"])
