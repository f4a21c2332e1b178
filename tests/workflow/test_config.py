"""config.yaml: what is accepted, and that all mistakes are reported together, each with path, fact and remedy."""

import pytest
import yaml

from kernelbook.config.errors import refuse_bad_yaml
from kernelbook.config.loading import ConfigError, load_config
from kernelbook.config.origins import read_sources


@pytest.fixture
def shipped(root):
    return yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def load(root):
    return lambda raw: load_config(raw, root / "workflow" / "schemas")


@pytest.fixture
def told(root, tmp_path, monkeypatch):
    """The problems of a config.yaml with a file of --configfile and words of --config laid over it."""
    monkeypatch.chdir(tmp_path)

    def of(own, named, words=None):
        for name, settings in (("config.yaml", own), ("more/own.yaml", named)):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(yaml.safe_dump(settings))
        sources = read_sources(tmp_path / "config.yaml", [tmp_path / "more" / "own.yaml"], words or {})
        raw = {}
        for source in sources:
            for key, value in source.settings.items():
                raw[key] = raw.get(key, {}) | value if isinstance(value, dict) else value
        with pytest.raises(ConfigError) as caught:
            load_config(raw, root / "workflow" / "schemas", sources)
        return [" ".join(problem.split(": ")[:2]) for problem in caught.value.problems]

    return of


def problems(load, raw):
    with pytest.raises(ConfigError) as caught:
        load(raw)
    return caught.value.problems


def test_the_shipped_configuration_is_accepted_and_typed(load, shipped):
    config = load(shipped)
    assert {run.kind for run in config.runs} >= {"host", "recorded", "published"}
    case = config.case("attention-inplace-eager")
    assert case.measurement["annotation"] == "attn_fwd"
    assert case.measurement["params"] == {"batch": 8, "heads": 16, "seq": 1024, "head_dim": 64}
    assert case.measurement["schedule"] == {"wait": 1, "warmup": 1, "active": 10}


@pytest.mark.parametrize("name", ["execute_context_*(*)", "ProfilerStep#*", "step_[0-9]", "*: forward", "ns/step?"])
def test_an_annotation_may_be_a_glob(load, shipped, name):
    shipped["cases"]["linear-eager"]["annotation"] = name
    shipped["runs"]["mine"] = {"recorded": "traces", "annotation": name}
    config = load(shipped)
    assert config.case("linear-eager").measurement["annotation"] == name
    assert config.run("mine").annotation == name


def test_cases_that_are_off_are_taken_only_when_named(load, shipped):
    assert "hub-liger-mlp" not in [case.name for case in load(shipped).cases]
    named = load({**shipped, "only_cases": "hub-*,linear-eager"})
    assert [case.name for case in named.cases] == ["linear-eager", "hub-flash-attention", "hub-liger-mlp"]


def test_every_mistake_is_reported_at_once_with_path_fact_and_remedy(load, shipped):
    shipped["repeat"] = 3
    shipped["repeats"] = 0
    shipped["runs"]["both"] = {"host": True, "recorded": "folder"}
    shipped["runs"]["none"] = {}
    shipped["runs"]["Upper"] = {"host": True}
    shipped["cases"]["linear-eager"] = {"workload": "linear", "samples": "one", "mode": "eagr", "warmpu": 3}
    shipped["only_runs"] = "hst"
    assert set(problems(load, shipped)) == {
        "config.yaml: the top level: unknown key 'repeat': did you mean 'repeats'?",
        "config.yaml: repeats: must be at least 1, got 0",
        "config.yaml: runs.both: has host and recorded: give exactly one of host, container, recorded, published",
        "config.yaml: runs.none: has none of them: give exactly one of host, container, recorded, published",
        'config.yaml: runs: "Upper" is not a valid name here: Lower-case letters, digits, dots and dashes, '
        "beginning with a letter.",
        'config.yaml: cases.linear-eager.samples: must be a whole number, got "one"',
        "config.yaml: cases.linear-eager.mode: got \"eagr\": did you mean 'eager'?",
        "config.yaml: cases.linear-eager: unknown key 'warmpu': did you mean 'warmup'?",
        "config.yaml: only_runs: names no run: 'hst': did you mean 'host'?",
    }


@pytest.mark.parametrize("edition", ["example", "../up", "UPPER", "", "-x", ".hidden"])
def test_an_edition_that_could_not_be_a_folder_is_refused(load, shipped, edition):
    assert any("edition" in line for line in problems(load, {**shipped, "edition": edition}))


@pytest.mark.parametrize(
    ("given", "names"), [("host", ["host"]), ("host, h200", ["host", "h200"]), (["h*"], ["host", "h200"]), ("", None)]
)
def test_selections_arrive_as_words_or_lists(load, shipped, given, names):
    found = [run.name for run in load({**shipped, "only_runs": given}).runs]
    assert found == names if names else len(found) >= 3


OWN = {"runs": {"host": {"host": True}, "old-1.2": {"recorded": 3}}, "cases": {"a": {"workload": "linear"}}}


@pytest.mark.parametrize(
    ("named", "words", "expected"),
    [
        ({"cases": {"b": {"workload": "linear", "samples": "x"}}}, {}, ["more/own.yaml cases.b.samples"]),
        ({"cases": {"b": {"workload": "linear", "sampels": 1}}}, {}, ["more/own.yaml cases.b"]),
        ({"repeat": 3}, {}, ["more/own.yaml the top level"]),
        ({}, {"only_cases": "c"}, ["--config only_cases"]),
        ({"device": "gpu"}, {"device": "tpu"}, ["--config device"]),
        ({"runs": {"new.2": {"recorded": 4}}}, {}, ["more/own.yaml runs.new.2.recorded"]),
    ],
)
def test_a_mistake_is_told_with_the_file_that_it_is_in(told, named, words, expected):
    assert set(told(OWN, named, words)) == {"config.yaml runs.old-1.2.recorded", *expected}


def test_a_sweep_makes_one_case_a_value(load, shipped):
    shipped["cases"] = {
        "mlp": {"workload": "mlp", "params": {"batch": 8, "dim": 64}, "sweep": {"batch": [1, 16]}},
        "linear-eager": {"workload": "linear"},
    }
    shipped["report"] = {"headline": ["mlp-batch-1", "mlp-batch-16"]}
    config = load({**shipped, "only_cases": "mlp-batch-*"})
    assert [(case.name, case.measurement["params"]) for case in config.cases] == [
        ("mlp-batch-1", {"batch": 1, "dim": 64}),
        ("mlp-batch-16", {"batch": 16, "dim": 64}),
    ]
    assert config.case("mlp-batch-16").sweep == {"of": "mlp", "parameter": "batch", "value": 16}
    assert config.case("mlp-batch-16").measurement["case"] == "mlp-batch-16"


def test_a_sweep_of_two_parameters_is_told_how_many_it_may_have(load, shipped):
    case = {"workload": "mlp", "variant": "torch", "sweep": {"batch": [1, 2], "seq": [1]}}
    assert problems(load, shipped | {"cases": shipped["cases"] | {"two": case}}) == (
        "config.yaml: cases.two.sweep: must have at most 1 entry, got 2",
    )


def test_a_reference_to_an_unknown_case_is_refused(load, shipped):
    shipped["report"] = {"headline": ["sdpa-math-eager", "attention-in-place"]}
    (problem,) = problems(load, shipped)
    assert problem.startswith("config.yaml: report.headline: names no case: 'attention-in-place'")


def test_sections_of_the_wrong_type_are_one_line_each(load):
    assert set(problems(load, {"runs": [], "cases": "x"})) == {
        "config.yaml: runs: must be a map of keys and values, got []",
        'config.yaml: cases: must be a map of keys and values, got "x"',
    }


def test_recorded_runs_need_no_cases_and_measured_ones_do(load):
    assert load({"runs": {"mine": {"recorded": "traces"}}}).cases == ()
    (problem,) = problems(load, {"runs": {"host": {"host": True}}})
    assert problem == (
        "config.yaml: the top level: the key 'cases' is missing: add it (run host has nothing to measure)"
    )


def test_a_sweep_may_not_make_a_name_twice(load, shipped):
    shipped["cases"] |= {
        "a": {"workload": "linear", "sweep": {"n": [1, "A", "a"]}},
        "a-n-1": {"workload": "linear"},
    }
    assert set(problems(load, shipped)) == {
        "config.yaml: cases: 2 cases would be named 'a-n-1' (a sweep adds its parameter and value): rename one",
        "config.yaml: cases: 2 cases would be named 'a-n-a' (a sweep adds its parameter and value): rename one",
    }


@pytest.mark.parametrize(
    ("section", "name"),
    [("runs", "edition"), ("runs", "night"), ("runs", "plan.json"), ("cases", "cache"), ("cases", "image")],
)
def test_names_of_the_results_own_files_are_refused(load, shipped, section, name):
    shipped[section][name] = {"host": True} if section == "runs" else {"workload": "linear"}
    assert problems(load, shipped) == (
        f"config.yaml: {section}.{name}: the name is taken by a file of the results: choose another",
    )


def unusable_configurations():
    own = {"workload": "linear"}
    own["params"] = own
    linear = "cases.linear-eager"
    return [
        ({"params": {1: 2, "batch": 3}}, f"{linear}.params: the key '1' is no word for YAML but int: quote it"),
        ({"expect": {True: 1}}, f"{linear}.expect: the key 'True' is no word for YAML but bool: quote it"),
        ({"params": {"batch": float("nan")}}, f"{linear}.params.batch: must be a finite number, got nan"),
        ({"timeout_s": float("inf")}, f"{linear}.timeout_s: must be a finite number, got inf"),
        ({"params": {"batch": 2**64}}, f"{linear}.params.batch: must be a number of at most 64 bits, got one of 65"),
        ({"variant": "a\0b"}, f"{linear}.variant: holds a NUL character: delete it"),
        (own, f"{linear}.params.params: holds itself (an alias within its own anchor): write it out"),
    ]


@pytest.mark.parametrize(("spec", "told"), unusable_configurations())
def test_what_yaml_can_say_and_nothing_after_it_can_bear_is_refused(load, shipped, spec, told):
    shipped["cases"]["linear-eager"] = {"workload": "linear", **spec}
    assert problems(load, shipped) == (f"config.yaml: {told}",)


@pytest.mark.parametrize("name", ["ab1" * 34, "probe.log", "a" * 20])
def test_names_that_no_folder_of_results_and_logs_can_have_are_refused(load, shipped, name):
    shipped["runs"][name] = {"host": True}
    shipped["cases"][name] = {"workload": "linear"}
    spoilt = {**shipped, "edition": name}
    assert {line.split(": ")[1] for line in problems(load, spoilt)} == {"edition", "runs", "cases"}


def test_a_guess_that_compares_a_case_with_itself_is_refused(load, shipped):
    shipped["cases"]["linear-eager"]["expect"] = {"cuda": {"same_kernels_as": ["linear-eager"]}}
    (told,) = problems(load, shipped)
    assert told == "config.yaml: cases.linear-eager.expect: compares the case with itself: name another case"


def test_an_edition_of_bad_letters_is_told_which_are_good(load, shipped):
    (told,) = problems(load, {**shipped, "edition": "a b"})
    assert "must be lower-case letters, digits, dots and dashes" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must hold keys and values"),
        ("- a", "must hold keys and values"),
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3", "line 5: the key 'c' is there already, in line 3"),
        ("a: [{b: 1, b: 2}]", "line 1: the key 'b' is there already, in line 1"),
    ],
)
def test_a_file_whose_keys_would_be_lost_without_a_word_is_refused(tmp_path, text, told):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit, match=told):
        refuse_bad_yaml(str(file))


def test_merged_and_repeated_anchors_are_no_keys_given_twice(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("a: &a {x: 1}\nb: {<<: *a, x: 2}\nc: [*a, *a]\n")
    refuse_bad_yaml(str(file))
