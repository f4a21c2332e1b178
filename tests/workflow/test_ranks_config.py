"""Cases with ranks in config.yaml: both spellings, every mistake, and what a measurement of them asks for."""

import ast

import pytest
import yaml

from kernelbook.config.loading import ConfigError, load_config
from kernelbook.containers.launching import prepare_environment, reaching


@pytest.fixture
def load(root):
    def of(**case):
        raw = {"runs": {"host": {"host": True}}, "cases": {"one": {"workload": "collective", **case}}}
        return load_config(raw, root / "workflow" / "schemas")

    return of


@pytest.mark.parametrize(
    ("keys", "ranks", "gpus"),
    [
        ({"ranks": 2}, 2, 2),
        ({"torchrun": {"nproc_per_node": 4, "nnodes": 1}}, 4, 4),
        ({"torchrun": {"nproc_per_node": 4}}, 4, 4),
        ({"ranks": 1}, 1, 1),
        ({}, None, 1),
    ],
)
def test_both_spellings_say_the_same(load, keys, ranks, gpus):
    case = load(**keys).case("one")
    assert case.measurement.get("ranks") == ranks
    assert case.gpus == gpus
    assert "torchrun" not in case.measurement


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"ranks": 0}, "cases.one.ranks: must be at least 1, got 0"),
        ({"ranks": "two"}, 'cases.one.ranks: must be a whole number, got "two"'),
        ({"rank": 2}, "cases.one: unknown key 'rank': did you mean 'ranks'?"),
        ({"torchrun": {}}, "cases.one.torchrun: the key 'nproc_per_node' is missing: add it (Ranks on this machine.)"),
        ({"torchrun": {"nproc_per_node": 2, "nnodes": 2}}, "cases.one.torchrun.nnodes: must be 1, got 2"),
        (
            {"torchrun": {"nproc_per_node": 2, "nproc_per_nod": 2}},
            "cases.one.torchrun: unknown key 'nproc_per_nod': did you mean 'nproc_per_node'?",
        ),
        (
            {"ranks": 2, "torchrun": {"nproc_per_node": 2}},
            "cases.one: has ranks and torchrun, which say the same: give one of them",
        ),
    ],
)
def test_a_mistake_is_reported_with_path_fact_and_remedy(load, keys, expected):
    with pytest.raises(ConfigError) as caught:
        load(**keys)
    assert [problem.partition(": ")[2].split(" The ")[0] for problem in caught.value.problems] == [expected]


def test_all_mistakes_are_reported_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load(ranks=0, torchrun={"nproc_per_node": 0, "nnodes": 3})
    assert len(caught.value.problems) == 4


def test_the_shipped_cases_with_ranks_are_off(root):
    raw = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))
    config = load_config(raw, root / "workflow" / "schemas")
    assert not [case.name for case in config.cases if case.gpus > 1]
    named = ["ddp-step", "fsdp2-step", "all-reduce", "all-gather", "reduce-scatter"]
    chosen = load_config({**raw, "only_cases": named}, root / "workflow" / "schemas")
    assert {case.gpus for case in chosen.cases} == {2}
    sizes = [case.measurement["params"]["bytes"] for case in chosen.cases if case.name.startswith("all-gather")]
    assert (sizes[0], sizes[-1]) == (2**10, 2**30)


def test_variables_between_ranks_reach_a_clean_container():
    environ = {
        "NCCL_NVLS_ENABLE": "0",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "NVSHMEM_DISABLE_NVLS": "1",
        "NCCL_SOCKET_IFNAME": "ib0",
        "UCX_TLS": "rc",
        "FI_PROVIDER": "efa",
        "PATH": "/bin",
        "HF_TOKEN": "secret",
    }
    expected = {name: value for name, value in environ.items() if name not in ("PATH", "HF_TOKEN")}
    prepare_environment(environ, "")
    once = dict(environ)
    prepare_environment(environ, "")
    assert environ == once
    got = reaching(environ, container=True)
    assert expected.items() <= got.items()
    assert not {"PATH", "HF_TOKEN"} & set(got)


@pytest.mark.parametrize("prefix", ["APPTAINERENV_", "SINGULARITYENV_"])
def test_what_the_user_sets_for_the_container_goes_before_the_machines(prefix):
    environ = {"NCCL_DEBUG": "WARN", f"{prefix}NCCL_DEBUG": "INFO"}
    prepare_environment(environ, "")
    assert reaching(environ, container=True)["NCCL_DEBUG"] == "INFO"


@pytest.mark.parametrize(
    ("device", "at_once", "cores", "expected"),
    [
        ("auto", 2, 16, {"one": (1, 8), "two": (2, 16)}),
        ("auto", 4, 16, {"one": (1, 4), "two": (2, 8)}),
        ("auto", 1, 8, {"one": (1, 8), "two": (2, 8)}),  # never more cores than there are
        ("cpu", 1, 8, {"one": (0, 8), "two": (0, 8)}),
        ("cuda", 1, None, {"one": (1, 1), "two": (2, 1)}),  # a cluster: the profile sets the cores
    ],
)
def test_a_measurement_takes_a_gpu_a_rank_and_the_cores_of_each(root, device, at_once, cores, expected):
    cases = {"one": {"workload": "linear"}, "two": {"workload": "collective", "ranks": 2}}
    raw = {"runs": {"host": {"host": True}}, "device": device, "cases": cases}
    names = {"CONFIG": load_config(raw, root / "workflow" / "schemas"), "CORES": cores, "AT_ONCE": at_once}
    rules = ast.parse((root / "workflow/rules/common.smk").read_text(encoding="utf-8"))
    wanted = [part for part in rules.body if getattr(part, "name", None) in ("gpus_of", "cores_of")]
    exec(compile(ast.Module(wanted, []), "common.smk", "exec"), names)
    assert {name: (names["gpus_of"](name), names["cores_of"](name)) for name in cases} == expected
    profile = (root / "workflow/rules/profile.smk").read_text(encoding="utf-8")
    assert "gpu=lambda wildcards: gpus_of(wildcards.case)" in profile
    assert "threads: lambda wildcards: cores_of(wildcards.case)" in profile
