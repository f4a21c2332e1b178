"""What the command for one trace need not load: each of these takes longer than to read a small trace."""

import subprocess
import sys

import pytest

from tests.helpers.patience import LONG

RUN = "import sys; sys.path.insert(0, {scripts!r}); import summarize_trace as tool; tool.main({arguments!r})"
SAY = "; print(*(name for name in ('pandas', 'matplotlib') if name in sys.modules), file=sys.stderr)"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_summary_is_made_without_drawing_or_data_frames(root, recorded_h200, options):
    trace = recorded_h200 / "attention-naive-eager" / "1" / "trace.json.gz"
    code = RUN.format(scripts=str(root / "scripts"), arguments=[*options, str(trace)]) + SAY
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG, check=True)
    assert "attn_fwd" in done.stdout
    assert done.stderr.split() == []
