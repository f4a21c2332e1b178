"""Fixtures shared by all tests: where things are, how a missing tool is handled, and how properties are tried.

KERNELBOOK_FUZZ_EXAMPLES=N tries each property on N random examples; without it they are 100, and always the same ones.
"""

import gc
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers import ROOT
from tests.helpers.required import all_required, required_program, skip_or_fail

# bytecode is kept, whatever the environment says: tests start some hundred Python processes
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# no test looks at a disk after a power cut, and the disks of some machines are slow at this
os.fsync = lambda _: None
# a shell lets jobs in its background ignore Ctrl-C, and so would each process that a test starts and stops by it
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
FUZZ_EXAMPLES = os.environ.get("KERNELBOOK_FUZZ_EXAMPLES")
settings.register_profile(
    "house",
    max_examples=int(FUZZ_EXAMPLES or 100),
    derandomize=not FUZZ_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("house")
# no process for the GPU, and nothing that talks to anyone
BROWSER_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BROWSER_LIMIT_MS = 300_000


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of torch and of Apptainer need it, also where no fixture of theirs asks for it."""
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        skip_or_fail("torch is not installed")
    if item.get_closest_marker("apptainer"):
        required_program("apptainer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that wait for Slurm first and slow ones next, so that no worker is left alone with one at the end."""
    slurm, slow = ({item.path for item in items if item.get_closest_marker(mark)} for mark in ("slurm", "slow"))
    items.sort(key=lambda item: (item.path not in slurm, item.path not in slow))


def pytest_collection_finish() -> None:
    """The garbage collector skips the thousands of collected tests, and looks for garbage less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator:
    """A file that skips all of itself (pytest.importorskip at its top) fails where nothing may be missing."""
    report = yield
    if report.skipped and all_required():
        report.outcome = "failed"
        report.longrepr = f"KERNELBOOK_REQUIRE_ALL=1, but all of it would be skipped: {report.longrepr[2]}"
    return report


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """A folder `shared` beside the checkout with more recorded traces; most checkouts have none."""
    folder = ROOT.parent / "shared"
    if not (folder / "traces").is_dir():
        pytest.skip("no folder of further traces beside the checkout")
    return folder


@pytest.fixture(scope="session")
def recorded_h200() -> Path:
    """The recorded H200 run that ships with the project: <case>/<process>/ folders."""
    return ROOT / "resources" / "recorded" / "h200-torch2.11"


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of Debian's chromium."""
    return required_program("chromium")


def _patient(make: Callable) -> Callable:
    """The same, but what it makes waits longer than 30 s for what the page is to show."""

    def made(**options: object) -> object:
        context_or_page = make(**options)
        context_or_page.set_default_timeout(BROWSER_LIMIT_MS)
        return context_or_page

    return made


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator:
    """Playwright's chromium, one for all tests of a process: a second Playwright may not be started beside it."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        skip_or_fail("Playwright's Python package is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=BROWSER_ARGS, timeout=BROWSER_LIMIT_MS)
        expect.set_options(timeout=BROWSER_LIMIT_MS)
        opened.new_context = _patient(opened.new_context)
        opened.new_page = _patient(opened.new_page)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def apptainer() -> str:
    """Path of apptainer."""
    return required_program("apptainer")


@pytest.fixture(scope="session")
def images(apptainer: str) -> Path:
    """Folder of the images that .ci/images.sh builds."""
    folder = Path(os.environ.get("KERNELBOOK_TEST_IMAGES") or Path.home() / ".cache" / "kernelbook-images")
    missing = [name for name in ("torch-2.13.sif", "torch-2.6.sif", "no-torch.sif") if not (folder / name).is_file()]
    if missing:
        skip_or_fail(f"the images {', '.join(missing)} are not in {folder}: .ci/images.sh builds them")
    return folder


@pytest.fixture(scope="session")
def slurm() -> str:
    """Path of sbatch, with a controller that answers and a node that takes jobs.

    Tests of other workers may have jobs on it, or planned for it (state `planned`), or have drained it for a while.
    """
    found = required_program("sbatch")
    asked = ["timeout", "-k", "1", "60", "sinfo", "--noheader", "--format", "%T"]
    states = set(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split())
    if all(state.startswith(("down", "fail", "inval", "unk")) for state in states):
        skip_or_fail("no Slurm with a node that takes jobs answers: .ci/slurm.sh start FOLDER starts one")
    return found
