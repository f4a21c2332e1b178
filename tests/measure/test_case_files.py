"""Bad arguments: exit status 2, every mistake named, nothing measured."""

from __future__ import annotations

import json

import pytest

import profile_case
from workloads.harness.case_file import CaseError, load_case

GOOD = {"case": "x", "workload": "linear", "annotation": "linear_fwd"}


def load(tmp_path, text):
    path = tmp_path / "case.json"
    path.write_text(text)
    return load_case(path)


def test_defaults_are_filled_in_and_the_case_is_kept_as_given(tmp_path):
    given, case = load(tmp_path, json.dumps({**GOOD, "schedule": {"active": 3}}))
    assert given == {**GOOD, "schedule": {"active": 3}}
    assert case["schedule"] == {"wait": 1, "warmup": 1, "active": 3}
    assert (case["warmup"], case["samples"], case["retries"], case["dtype"]) == (3, 50, 1, "bfloat16")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"case": None}, "case: must be a text, got null"),
        ({"annotation": ""}, 'annotation: must be a text, got ""'),
        ({"params": []}, "params: must be an object, got []"),
        ({"mode": "fast"}, 'mode: must be one of eager, compile, graph, got "fast"'),
        ({"dtype": "int8"}, "dtype: must be one of bfloat16, float16, float32, float64"),
        ({"samples": 0}, "samples: must be a whole number, at least 1, got 0"),
        ({"warmup": True}, "warmup: must be a whole number, at least 0, got true"),
        ({"timeout_s": -1}, "timeout_s: must be seconds above 0, got -1"),
        ({"schedule": {"repeat": 2}}, "schedule.repeat: is not known; use wait, warmup, active"),
        ({"schedule": {"active": 0}}, "schedule.active: must be a whole number, got 0"),
        ({"compile_options": {"fast": 1}}, "compile_options.fast: is not known; use backend, dynamic"),
    ],
)
def test_mistakes(tmp_path, change, message):
    with pytest.raises(CaseError) as caught:
        load(tmp_path, json.dumps({**GOOD, **change}))
    assert message in str(caught.value)


def test_all_mistakes_at_once(tmp_path):
    with pytest.raises(CaseError) as caught:
        load(tmp_path, json.dumps({"mode": 1, "samples": -1}))
    assert len(str(caught.value).splitlines()) == 5


@pytest.mark.parametrize("text", ["", "[1]", "{'a': 1}"])
def test_files_that_hold_no_case(tmp_path, text):
    path = tmp_path / "case.json"
    path.write_text(text)
    assert profile_case.main(["--case-file", str(path), "--output", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_a_case_file_that_is_not_there(tmp_path, capsys):
    assert profile_case.main(["--case-file", str(tmp_path / "no.json"), "--output", str(tmp_path / "out")]) == 2
    assert "cannot be read (No such file or directory)" in capsys.readouterr().err


def test_an_unknown_device(tmp_path):
    with pytest.raises(SystemExit) as caught:
        profile_case.main(["--case-file", "x", "--output", "y", "--device", "tpu"])
    assert caught.value.code == 2
