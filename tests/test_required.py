"""What is missing skips a test with a reason, or fails it where KERNELBOOK_REQUIRE_ALL=1 says that nothing may be."""

import os
import subprocess
import sys

import pytest

from tests.helpers.patience import LONG

WITHOUT_TORCH = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
TESTS = {
    "a file that imports torch": "tests/own/test_modes.py",
    "a test with the mark": "tests/own/test_spaces.py::test_torch_is_found_without_importing_it",
}


@pytest.mark.parametrize("tests", TESTS.values(), ids=TESTS)
def test_without_torch_its_tests_are_skipped_or_fail(root, tests):
    command = [sys.executable, "-c", WITHOUT_TORCH, tests, "-p", "no:cacheprovider"]
    for required in ("0", "1"):
        environment = {**os.environ, "KERNELBOOK_REQUIRE_ALL": required}
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=LONG, check=False
        )
        assert ("KERNELBOOK_REQUIRE_ALL=1, but" in done.stdout) == (required == "1"), done.stdout
        assert ("SKIPPED" in done.stdout) == (required == "0")
        assert "passed" not in done.stdout
