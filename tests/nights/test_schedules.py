"""The examples of schedulers, as far as they can be checked without one; and what config.yaml may say of nights."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

import nightly
import publish_site
from kernelbook.config.loading import ConfigError, load_config
from kernelbook.history import nights
from kernelbook.history.night_events import KINDS
from kernelbook.history.schema import SCHEMA
from kernelbook.history.verdicts import Rules
from tests.helpers.required import required_program

ENTRY = re.compile(r"^(?:@reboot|(?:[\d*/,-]+\s+){5})\s*(?P<command>\S.*)$")


@pytest.fixture
def schedules(root: Path) -> Path:
    return root / "workflow" / "schedules"


@pytest.fixture
def schema(root: Path) -> dict:
    return json.loads((root / "workflow" / "schemas" / "nights.schema.json").read_text(encoding="utf-8"))


def checked_command(command: str) -> None:
    """The command is sound for bash, and the options of nightly.py in it are ones it takes or snakemake does."""
    subprocess.run(["bash", "-n", "-c", command], check=True)
    assert "scripts/nightly.py" in command


@pytest.mark.parametrize("name", ["crontab", "scrontab"])
def test_cron_lines_are_times_and_sound_commands(schedules: Path, name: str) -> None:
    lines = (schedules / name).read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith("#") and not re.match(r"^[A-Z_]+=", line)]
    assert entries
    for line in entries:
        match = ENTRY.match(line)
        assert match, line
        assert "%" not in match["command"]  # cron takes it for a line break
        checked_command(match["command"])


def test_scron_directives_stand_right_before_the_entry(schedules: Path) -> None:
    lines = (schedules / "scrontab").read_text(encoding="utf-8").splitlines()
    directives = [at for at, line in enumerate(lines) if line.startswith("#SCRON")]
    assert directives == list(range(directives[0], directives[0] + len(directives)))
    assert not lines[directives[-1] + 1].startswith("#")


def test_systemd_accepts_the_units(schedules: Path, root: Path, tmp_path: Path) -> None:
    analyze = required_program("systemd-analyze")
    for name in ("kernelbook-nightly.service", "kernelbook-nightly.timer"):
        text = (schedules / name).read_text(encoding="utf-8").replace("/srv/kernelbook/.venv/bin/python", "/bin/sh")
        (tmp_path / name).write_text(text.replace("/srv/kernelbook", str(root)), encoding="utf-8")
    units = [str(tmp_path / f"kernelbook-nightly.{kind}") for kind in ("service", "timer")]
    done = subprocess.run([analyze, "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    when = re.search(r"OnCalendar=(.*)", (schedules / "kernelbook-nightly.timer").read_text(encoding="utf-8"))[1]
    subprocess.run([analyze, "calendar", when], capture_output=True, check=True)


def test_the_service_takes_a_change_for_a_success_and_a_failure_for_one(schedules: Path) -> None:
    text = (schedules / "kernelbook-nightly.service").read_text(encoding="utf-8")
    assert re.search(r"^SuccessExitStatus=3$", text, re.MULTILINE)
    command = shlex.split(re.search(r"ExecStart=(.*)", text)[1])
    assert command[1] == "scripts/nightly.py"


def test_the_github_workflow_is_well_formed(schedules: Path) -> None:
    workflow = yaml.safe_load((schedules / "github-actions.yml").read_text(encoding="utf-8"))
    triggers = workflow[True]  # YAML 1.1 reads the key `on` as true
    assert len(triggers["schedule"][0]["cron"].split()) == 5
    (job,) = workflow["jobs"].values()
    assert "self-hosted" in job["runs-on"]
    assert workflow["concurrency"]["cancel-in-progress"] is False
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
        if "run" in step:
            assert "${{" not in step["run"]  # what somebody types in a form is passed as a variable, never as code
            subprocess.run(["bash", "-n", "-c", step["run"]], check=True)
    assert any("scripts/nightly.py" in step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize(("status", "ends"), [(0, 0), (1, 1), (3, 0), (4, 4), (5, 5)])
def test_the_github_step_passes_failures_on(schedules: Path, tmp_path: Path, status: int, ends: int) -> None:
    workflow = yaml.safe_load((schedules / "github-actions.yml").read_text(encoding="utf-8"))
    (step,) = [step for step in workflow["jobs"]["nightly"]["steps"] if step.get("name") == "Run the night"]
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == ends


def test_every_key_is_described_and_has_the_default_that_the_code_has(schema: dict) -> None:
    sections = schema["properties"]
    for section in sections.values():
        assert section["additionalProperties"] is False
        for key, value in section["properties"].items():
            assert value["description"], key
            assert "default" in value, key
    said = {name: {k: v["default"] for k, v in part["properties"].items()} for name, part in sections.items()}
    rules = Rules()
    for field in fields(Rules):
        value = getattr(rules, field.name)
        assert said["history"].pop(field.name) == (list(value) if isinstance(value, tuple) else value)
    assert said["history"] == {"folder": "history", "lines": {}}
    assert said["publish"] == publish_site.DEFAULTS
    assert said["schedule"] == {
        "repeats": nights.REPEATS,
        "confirm": 10,
        "resume_hours": nightly.RESUME_HOURS,
        "counters_every": 0,
        "deadline_hours": None,
    }
    assert set(sections["history"]["properties"]["alert_on"]["items"]["enum"]) == set(KINDS) - {"failure"}


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"history": {"min_nigths": 12}}, "history: unknown key 'min_nigths': did you mean 'min_nights'?"),
        ({"publish": {"webhook_env": "https://hooks.example.org/secret"}}, "publish.webhook_env"),
        ({"schedule": {"repeats": 0}}, "schedule.repeats: must be at least 1, got 0"),
        ({"history": {"alert_on": ["tmie"]}}, "history.alert_on.0: got \"tmie\": did you mean 'time'?"),
    ],
)
def test_a_mistake_in_the_configuration_is_told(root: Path, section: dict, says: str) -> None:
    config = {"runs": {"host": {"host": True}}, "cases": {"a": {"workload": "linear"}}}
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_config(config | section, root / "workflow" / "schemas")


def test_the_target_nightly_takes_the_date_and_the_repeats_of_a_night() -> None:
    config = {"runs": {}, "schedule": {"repeats": 7}}
    environ: dict[str, str] = {}
    assert nights.for_target(config, ["report"], environ, main_process=True) == config
    tonight = nights.for_target(config, ["nightly", "--cores", "1"], environ, main_process=True)
    assert tonight["repeats"] == 7
    assert nights.is_night(tonight["edition"])
    on_a_node = nights.for_target(config, ["--target-jobs", "profile_case"], environ, main_process=False)
    assert on_a_node == tonight
    named = nights.for_target(config | {"edition": "2026-11-29-b"}, ["nightly"], environ, main_process=True)
    assert named["edition"] == "2026-11-29-b"
    assert nights.for_target(config, ["report"], environ, main_process=True) == config
    assert nights.for_target({}, ["nightly"], {}, main_process=True)["repeats"] == 5


def test_the_docs_name_every_column_and_kind(root: Path) -> None:
    text = (root / "docs" / "reference" / "nights.md").read_text(encoding="utf-8")
    assert [name for name in (*SCHEMA.names, *KINDS) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", ["2026-11-29", "2026-11-29-b", "2026-02-28.2"])
def test_names_of_nights(name: str) -> None:
    assert nights.is_night(name)


@pytest.mark.parametrize("name", ["latest", "2026-13-01", "2026-11-29b", "2026-11-29-", "26-11-29", "2026-02-30", ""])
def test_names_of_no_night(name: str) -> None:
    assert not nights.is_night(name)
