"""Names that YAML or the command line take for a number, true, nothing or a date; and YAML that is refused at once."""

from __future__ import annotations

import datetime
import time

import pytest
import yaml

from kernelbook.config.errors import refuse_bad_yaml
from kernelbook.config.loading import ConfigError, load_config
from kernelbook.config.origins import read_sources
from kernelbook.config.yaml_text import YamlError, read_yaml
from kernelbook.history.nights import for_target
from kernelbook.text.suggestions import near_miss

RAW = {"runs": {"host": {"host": True}}, "cases": {"a": {"workload": "linear"}, "inf": {"workload": "linear"}},
       "report": {"headline": ["a", "inf"]}}  # fmt: skip


@pytest.fixture
def told(root, tmp_path, monkeypatch):
    """The problems of a configuration: of a text of config.yaml, or of RAW with words of the command line."""
    monkeypatch.chdir(tmp_path)

    def of(text="", words=None, arguments=(), without=None):
        own = yaml.safe_dump({key: value for key, value in RAW.items() if key != without})
        (tmp_path / "config.yaml").write_text(own + text)
        raw = yaml.safe_load((tmp_path / "config.yaml").read_text()) | (words or {})
        sources = read_sources(tmp_path / "config.yaml", [], words or {}, arguments)
        with pytest.raises(ConfigError) as caught:
            load_config(raw, root / "workflow" / "schemas", sources)
        return caught.value.problems

    return of


@pytest.mark.parametrize(
    ("value", "written", "spelling"),
    [
        (2.1, "2.10", "the number 2.1, and a name is text: write v2.10"),
        (2.1, None, "the number 2.1, and a name is text: write v2.1"),
        (20261129, "20261129", "the number 20261129, and a name is text: write v20261129"),
        (True, "True", "true or false true, and a name is text: write vtrue"),
        (1e300, "1e300", "the number 1e+300, and a name is text: write v1e300"),
        (float("inf"), "inf", "the number inf, and a name is text: write vinf"),
    ],
)
def test_an_edition_that_arrives_as_something_else_is_refused_with_a_spelling(told, value, written, spelling):
    arguments = [f"edition={written}"] if written else []
    assert told(words={"edition": value}, arguments=arguments) == (f"--config: edition: arrives as {spelling}",)


def test_in_a_file_too_and_a_date_may_be_quoted(told):
    assert told("edition: 2.10\n") == (
        "config.yaml: edition: arrives as the number 2.1, and a name is text: write v2.10",
    )
    (date,) = told("edition: 2026-11-29\n")
    assert date.endswith('the date 2026-11-29, and a name is text: write v2026-11-29, or "2026-11-29" in quotes')
    assert told("edition:\n") == ("config.yaml: edition: is empty: give it a name, or leave the key out",)


def test_a_night_of_yaml_is_a_date_and_stays_one():
    config = for_target({"edition": datetime.date(2026, 11, 29)}, ["nightly"], {}, main_process=True)
    assert config["edition"] == "2026-11-29"
    with pytest.raises(ValueError, match=r"'2\.1' is not a night"):
        for_target({"edition": 2.1}, ["nightly"], {}, main_process=True)


@pytest.mark.parametrize(
    ("selection", "value", "written", "remedy"),
    [
        ("only_cases", float("inf"), "inf", "inf arrives as the number, and a name is text: write [inf]"),
        ("only_cases", 2.1, "2.10", "2.10 arrives as the number, and a name is text: there is: a, inf"),
        ("only_runs", None, "", "is empty: name some, or leave it out to take all that are on"),
        ("only_runs", ",", ",", "names nothing, got ',': name some, or leave it out to take all that are on"),
    ],
)
def test_a_selection_that_arrives_as_something_else_is_refused(told, selection, value, written, remedy):
    assert told(words={selection: value}, arguments=[f"{selection}={written}"]) == (f"--config: {selection}: {remedy}",)


def test_names_of_runs_and_cases_are_told_with_a_spelling_that_works(told):
    names = ("2", "on", "2026-11-29", "null", "1.50", "a", "inf")
    assert told("cases: {" + ", ".join(f"{name}: {{workload: linear}}" for name in names) + "}\n", without="cases") == (
        "config.yaml: cases: the name 2 arrives as the number, and a name is text: write v2",
        'config.yaml: cases: the name on arrives as true or false, and a name is text: write "on" in quotes',
        "config.yaml: cases: the name 2026-11-29 arrives as the date, and a name is text: write v2026-11-29",
        'config.yaml: cases: the name null arrives as nothing, and a name is text: write "null" in quotes',
        "config.yaml: cases: the name 1.50 arrives as the number, and a name is text: write v1.50",
    )


def test_other_words_that_are_none_to_yaml_are_to_be_quoted(told):
    found = told("images: 2.10\nvisible_devices: true\n")
    assert found == (
        'config.yaml: images: must be a word, got 2.10, which is none to YAML: write "2.10" in quotes',
        'config.yaml: visible_devices: must be a word, got true, which is none to YAML: write "true" in quotes',
    )


@pytest.mark.parametrize(
    ("word", "known", "neighbour"),
    [
        ("gpu", ("auto", "cuda", "cpu"), "cuda"),
        ("GPU", ("auto", "cuda", "cpu"), "cuda"),
        ("cuda:0", ("auto", "cuda", "cpu"), "cuda"),
        ("bf16", ("bfloat16", "float16", "float32", "float64"), "bfloat16"),
        ("fp16", ("bfloat16", "float16", "float32", "float64"), "float16"),
        ("half", ("bfloat16", "float16", "float32", "float64"), "float16"),
        ("float", ("bfloat16", "float16", "float32", "float64"), "float32"),
        ("double", ("bfloat16", "float16", "float32", "float64"), "float64"),
        ("compiled", ("eager", "compile", "graph"), "compile"),
        ("cuda-graphs", ("eager", "compile", "graph"), "graph"),
        ("bfloat16", ("fp32", "tf32", "fp16", "bf16"), "bf16"),
        ("cuda", ("launches", "gpu"), "gpu"),
        ("cpuu", ("auto", "cuda", "cpu"), "cpu"),
    ],
)
def test_a_misspelt_value_gets_the_right_neighbour(word, known, neighbour):
    assert near_miss(word, known) == f"did you mean {neighbour!r}?"


def test_a_misspelt_device_is_told_with_its_neighbour(told):
    assert told(words={"device": "gpu"}) == ("--config: device: got \"gpu\": did you mean 'cuda'?",)


def bomb(levels, width):
    lines = ["a0: &a0 [x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines)


MERGES = "a0: &a0 {x: 1}\n" + "\n".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}], k{n}: 1}}" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (bomb(9, 10), "its aliases stand for 345,679,021 values: write out what is needed"),
        (bomb(40, 10), "its aliases stand for more than 10^12 values"),
        (MERGES, "its aliases stand for"),
        ("[" * 3000, "line 1, column 51: no YAML: nested deeper than 50 levels"),
        ("{a: " * 3000, "nested deeper than 50 levels"),
        ("\n".join("  " * n + "a:" for n in range(400)), "nested deeper than 50 levels"),
        ("- " * 3000, "nested deeper than 50 levels"),
        ("a: 1\n1: x\ntrue: y", "line 3: the key 'true' is the same to YAML as '1' in line 2"),
        ("on: 1\nyes: 2", "line 2: the key 'yes' is the same to YAML as 'on' in line 1"),
        ("a: {1: x, 1.0: y}", "the key '1.0' is the same to YAML as '1'"),
        ("a: 2026-13-01", "line 1, column 4: no YAML: month must be in 1..12"),
    ],
)
def test_yaml_that_is_merged_or_has_no_end_is_refused_within_a_second_of_cpu_time(tmp_path, text, fact):
    (tmp_path / "config.yaml").write_text(text)
    before = time.process_time()
    with pytest.raises(SystemExit) as caught:
        refuse_bad_yaml(tmp_path / "config.yaml")
    assert time.process_time() - before < 1
    assert fact in str(caught.value)


def test_ordinary_aliases_and_keys_that_only_look_alike_are_read():
    assert read_yaml("a: &a {x: 1}\nb: {<<: *a, x: 2}\n'1': y\n1: z\n") == {
        "a": {"x": 1}, "b": {"x": 2}, "1": "y", 1: "z",
    }  # fmt: skip
    shared = "p: &p {a: 1, b: 2}\n" + "\n".join(f"c{n}: {{params: *p, x: {n}}}" for n in range(3000))
    assert len(read_yaml(shared)) == 3001
    with pytest.raises(YamlError, match="line 2, column 2"):
        read_yaml("a: [1\nb: 2")
