"""What leads the report of a run on the CPU: whether compiled forwards are faster than eager ones."""

from __future__ import annotations

import pytest

from kernelbook.cases import CaseFacts, Process
from kernelbook.edition.model import Edition, Run
from kernelbook.report.first_screen import verdict
from kernelbook.report.openings import cpu_sentence


def case(workload, mode, *times, device_type="cpu"):
    """A case whose processes have these median forward times, in us."""
    about = {"run": "host", "case": f"{workload}-{mode}", "workload": workload, "variant": "plain", "mode": mode}
    about |= {"status": "ok", "device_type": device_type, "device": "AMD EPYC", "dtype": "float32"}
    processes = tuple(
        Process(**about, process=number, forward_time_us=time) for number, time in enumerate(times, start=1)
    )
    return CaseFacts(**about, processes=processes, forward_time_us=times[0] if times else None)


def edition(*cases, kind="host"):
    return Edition("e", "2026-11-30T00:00:00Z", (Run("host", kind),), (), (), tuple(cases), (), ())


def test_compiled_against_eager_by_all_pairs_of_processes():
    made = edition(
        *(case("a", "eager", 100.0, 110.0), case("a", "compile", 50.0, 55.0)),
        *(case("b", "eager", 50.0, 50.0), case("b", "compile", 100.0, 90.0)),
        *(case("c", "eager", 100.0, 100.0), case("c", "compile", 101.0, 100.5)),
        *(case("d", "eager", 100.0, 200.0), case("d", "compile", 150.0, 90.0)),
    )
    parts = "faster in 1, slower in 1, about as fast in 1, undecided in 1"
    sentence = f"on the CPU compiled forwards, against eager, are {parts}"
    assert cpu_sentence(made) == f"{sentence} of 4 cases"
    assert verdict(made).sentence == f"O{sentence[1:]} of 4 cases."


def test_without_a_pair_it_says_what_there_is_and_what_a_gpu_adds():
    sentence = "on the CPU: forward times of 1 case; kernels and device times need a GPU"
    assert cpu_sentence(edition(case("a", "eager", 1.0))) == sentence


@pytest.mark.parametrize("device_type", ["cuda", None])
def test_a_case_on_a_gpu_or_on_nothing_known_leads_with_its_guesses(device_type):
    made = edition(case("a", "eager", 2.0), case("a", "compile", 1.0, device_type=device_type))
    assert cpu_sentence(made) == ""
    assert verdict(made).sentence == "2 cases, and no guess."
