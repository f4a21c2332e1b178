"""What torch records about a collective is read wherever it is, whether or not the file is known to be of a job."""

import gzip
import json

import pytest

from kernelbook.trace import read_trace, reader
from kernelbook.trace.events import Message
from tests.trace.made_trace import document, forward, kernel, launch

ARGUMENTS = {
    "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 2048, "dtype": "BFloat16",
    "Group size": 2, "Process Group Name": "7", "Process Group Ranks": "[0, 1]", "Src Rank": 1, "Dst Rank": 0,
}  # fmt: skip
MESSAGE = Message("allreduce", 1024, 2048, "BFloat16", 2, "7", "[0, 1]", 1, 0)
JOB = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}}


def text(head, **tail):
    """10 forwards, then a collective, then another forward: the text before it is several batches."""
    before = [event for number in range(10) for event in forward(1000.0 * number, 10 * number)]
    collective = [launch(500, 20_000), kernel("ncclKernel", 20_010, 30, 500, **ARGUMENTS)]
    return json.dumps(document([*before, *collective, *forward(30_000, 600)], **head) | tail)


@pytest.mark.parametrize("spelled", [text(JOB), text({}), text({}, **JOB)], ids=["head", "nowhere", "tail"])
@pytest.mark.parametrize("damage", ["", "x"], ids=["whole", "damaged"])
def test_a_collective_is_read_whole(tmp_path, monkeypatch, spelled, damage):
    """3 activities of each of 11 forwards and the collective's kernel, once each."""
    monkeypatch.setattr(reader, "_PIECE", 1 << 10)
    monkeypatch.setattr("kernelbook.trace.source._MOST_PLAIN", 1 << 10)
    path = tmp_path / "made.json.gz"
    path.write_bytes(gzip.compress(spelled.replace('"aten::relu"', f'"aten::relu"{damage}', 1).encode()))
    reading = read_trace(path)
    timeline = reading.timeline
    assert [timeline.messages[code] for code in timeline.message.tolist() if code >= 0] == [MESSAGE]
    assert len(timeline.message) == 34
    assert {row["name"]: row["count"] for row in reading.ops.to_pylist()} == {
        "aten::linear": 11, "aten::addmm": 11, "aten::relu": 10 if damage else 11,
    }  # fmt: skip
