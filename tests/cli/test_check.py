"""`kernelbook check`: mistakes of a configuration, and what a trace cannot tell."""

import json

import pytest

from tests.collectives.made_job import collective, folder_of_pair, message, write_rank
from tests.helpers.schemas import validate
from tests.trace.made_trace import forward, kernel, launch, op, write


@pytest.fixture
def check(kernelbook):
    """Run `check --json`; returns the status and the objects, which fit the schema."""

    def of(*paths):
        status, out, _ = kernelbook("check", "--json", *paths)
        found = [json.loads(line) for line in out.splitlines()]
        for each in found:
            validate(each, "cli/check.schema.json")
        return status, found

    return of


def test_a_whole_trace_has_nothing_odd_and_nothing_missing(check, kernelbook, tmp_path):
    file = write(tmp_path / "made.json", forward())
    assert check(file) == (0, [{"schema": 1, "kind": "trace", "source": str(file), "odd": [], "not_known": []}])
    assert kernelbook("check", file)[1] == f"{file}: nothing odd, nothing missing\n"


@pytest.mark.parametrize(
    ("events", "missing", "remedy"),
    [
        ([op("aten::mm", 0, 5)], "every device figure", "ProfilerActivity.CUDA"),
        ([op("aten::mm", 0, 5), launch(1, 1)], "every device figure", "permissions"),
        ([op("aten::mm", 0, 9), launch(1, 1), kernel("gemm", 4, 3, 1)], "figures per forward", "record_function"),
        ([launch(1, 1), kernel("gemm", 4, 3, 1)], "ops, and which op launched a kernel", "ProfilerActivity.CPU"),
        ([*forward(), kernel("gemm", 0, 3, 99)], "op and range of 1 device activity", "warm-up"),
    ],
)
def test_what_a_trace_cannot_tell_has_a_reason_and_a_remedy(check, tmp_path, events, missing, remedy):
    status, (found,) = check(write(tmp_path / "made.json", events))
    assert status == 0
    gap = next(gap for gap in found["not_known"] if gap["missing"] == missing)
    assert remedy in gap["remedy"]
    assert gap["why"]


def test_a_device_without_a_name_and_a_cut_file(check, tmp_path):
    whole = write(tmp_path / "made.json", forward(), deviceProperties=[]).read_text()
    (tmp_path / "cut.json").write_text(whole[: whole.index('"relu"')])
    _, (found,) = check(tmp_path / "cut.json")
    missing = [gap["missing"] for gap in found["not_known"]]
    assert "the name of the device" in missing
    assert "what ran after the end of the file" in missing


def test_all_mistakes_of_a_configuration_are_listed(check, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("runs: {a: {recorded: here, enabld: true}}\ncases: {x: {workload: nope, expct: {}}}\n")
    status, (found,) = check(file)
    assert status == 1
    assert found["plan"] == []
    assert [line for line in found["mistakes"] if "enabld" in line and "enabled" in line]
    assert [line for line in found["mistakes"] if "expct" in line and "expect" in line]


@pytest.mark.parametrize("text", ["runs: [", "just words", "\tx: 1"])
def test_a_file_that_is_no_configuration(check, tmp_path, text):
    file = tmp_path / "mine.yml"
    file.write_text(text)
    status, (found,) = check(file)
    assert (status, len(found["mistakes"])) == (1, 1)
    assert found["mistakes"][0].startswith(f"{file}: ")


def test_a_good_configuration_says_what_would_run(check, tmp_path, recorded_h200):
    file = tmp_path / "mine.yaml"
    file.write_text(f"runs: {{h200: {{recorded: {recorded_h200}}}}}\n")
    status, (found,) = check(file)
    assert (status, found["mistakes"]) == (0, [])
    assert [line for line in found["plan"] if line.startswith("run h200") and "46 cases, 138 processes" in line]


def test_a_configuration_of_which_nothing_would_run_says_so_first(kernelbook, check, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("runs: {mine: {recorded: absent}}\n")
    assert check(file)[0] == 0  # another machine may have the folder
    first, *others = kernelbook("check", file)[1].splitlines()
    assert first == f"{file}: no mistake, but nothing would run: every run is left out"
    assert "  left out: mine: no folder absent: correct runs.mine.recorded" in others


def test_a_configuration_that_is_not_there(kernelbook, tmp_path):
    status, _, err = kernelbook("check", tmp_path / "absent.yaml")
    assert status == 2
    assert err == f"{tmp_path / 'absent.yaml'}: cannot be read: No such file or directory\n"


def test_a_file_without_runs_is_checked_on_top_of_the_config_of_the_folder(check, tmp_path, monkeypatch, recorded_h200):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(f"runs: {{h200: {{recorded: {recorded_h200}}}}}\nedition: base\n")
    (tmp_path / "good.yaml").write_text("edition: mine\n")
    (tmp_path / "bad.yaml").write_text("runs_: {}\n")
    status, (good,) = check("good.yaml")
    assert (status, good["mistakes"]) == (0, [])
    assert good["plan"][0] == "edition mine"
    status, (bad,) = check("bad.yaml")
    assert status == 1
    assert bad["mistakes"][0].startswith("bad.yaml: ")
    assert "did you mean 'runs'" in bad["mistakes"][0]


def test_without_a_configuration_to_add_to_the_file_itself_is_named(check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("cases: {linear-eager: {expect: {kernels: 2}}}")
    status, (found,) = check("mine.yaml")
    assert status == 1
    (mistake,) = found["mistakes"]
    assert mistake.startswith("mine.yaml: the key 'runs' is missing, and this folder has no config.yaml")


def test_a_rank_beside_its_partner_is_not_odd_and_alone_it_lacks_the_other(check, tmp_path):
    both = folder_of_pair(tmp_path / "traces")
    status, found = check(both)
    assert status == 0
    codes = [[odd["code"] for odd in each["odd"]] for each in found]
    assert (codes, [each["not_known"] for each in found]) == ([["several_streams"]] * 2, [[], []])
    (alone,) = check(both / "job_rank1.json")[1]
    assert [gap["missing"] for gap in alone["not_known"]] == ["waiting for other ranks"]
    assert "only one rank has a trace here" in alone["not_known"][0]["why"]


def test_ranks_without_a_trace_leave_transfer_times_unknown(check, tmp_path):
    for rank in (0, 2):
        events = [*forward(), *collective(1010, 1200 + rank, 50, 9, message("allreduce", 64, range(4)))]
        write_rank(tmp_path, rank, events, 4)
    for each in check(tmp_path)[1]:
        gap = next(gap for gap in each["not_known"] if gap["missing"] == "transfer times of collectives")
        assert gap["why"] == "2 of 4 ranks have no trace here: 1, 3"
