"""What counts as a credential or a path of the machine, what does not, and that both sides of the wall agree."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbook.text.credentials import passwords_in, secrets_in, without_secrets
from kernelbook.text.scrubbing import Scrubber
from tests.privacy.planted import CREDENTIALS, PATHS, PLANTED
from workloads.harness import files

HARMLESS = [
    "docker://nvcr.io/nvidia/pytorch:26.09-py3",
    f"docker://host:5000/nvidia/pytorch@sha256:{'0' * 64}",
    "https://example.org:8080/a?b=c#d",
    "https://medium.com/@someone/post",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEviT0_T1_" + "A1b" * 30,
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel__5x_cublas",
    "sk-matmul-add-4096-eager",
    "task-abcdefghijklmnopqrstuvwxyz0123",
    "max_tokens=128 num_tokens: 4096 pad_token=0 pad_token_id=50256 tokenizer=gpt2 tokens_per_second=12.5",
    '{"tokens": 4096, "pad_token": 0, "key": "value", "keys": ["a"]}',
    "SyntaxError: invalid token: expected ')'",
    "the registry wants a login, or has no such image",
    "basic block 12, bearer of the annotation",
    "Torch-Compiled Region: 0/0",
    "## Call CompiledFxGraph fx6hhlqc5m2tcgqkkbm2vtxzlkfdbnmzjkqvz ##",
    "/encoder/layer.0/attention",
    "it has no /opt/python, and /usr/lib/python3/dist-packages/torch/nn/modules/linear.py is there",
    "results/latest/host/linear-eager/1/trace.json.gz",
    "12.5 GB/s, n/a, 5/10, and/or",
    "a kernel 1/2 as long: 3 µs/forward",
    "KeyError: 'size'",
    "/rooted and /homes and /tmpfs",
    f"sha256:{'0123456789abcdef' * 4}",
]
WORDS = ["token", "api_key", "password", "authorization", "cookie", "secret", "credentials", "x", *PLANTED]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(WORDS) | st.text(), inner),
)


@pytest.mark.parametrize("text", CREDENTIALS)
def test_each_credential_is_hidden_alone_quoted_and_inside_a_sentence(text):
    for around in ("{}", "'{}'", '"{}"', "see {} there", "a={};b", "[{}]", "first\n{}\nlast"):
        for hidden in (without_secrets(around.format(text)), files.without_secrets(around.format(text))):
            assert CREDENTIALS[text] not in hidden


@pytest.mark.parametrize("text", PATHS)
def test_each_path_is_shortened_alone_and_inside_a_sentence(text):
    for around in ("{}", "see {} there", "a={};b", "first\n{}\nlast"):
        assert PATHS[text] not in Scrubber().text(around.format(text))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"/scratch/{'a' * 60} there", f"<path>/{'a' * 60} there"),
        (f"/data/b/{'a1' * 60}\t", f"<path>/{'a1' * 60}\t"),
        ("-" * 200_000, "-" * 200_000),
        ("--a" * 60_000, "--a" * 60_000),
    ],
)
def test_no_text_takes_for_ever(text, clean):
    """A pattern that tries each way to divide a name takes 2^60 steps, one that starts anew at each dash 10^10."""
    assert Scrubber({}).text(text) == clean


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_alike_stays(text):
    assert Scrubber().text(text) == text
    assert files.without_secrets(text) == text


@given(st.text() | st.lists(st.sampled_from([*PLANTED, *HARMLESS, " ", "\n", '"', "/", "@", ":"])).map("".join))
def test_both_sides_agree_and_a_second_time_changes_nothing(text):
    once = without_secrets(text)
    assert files.without_secrets(text) == once
    assert without_secrets(once) == once


@given(VALUES)
def test_json_stays_json(value):
    text = json.dumps(value)
    json.loads(Scrubber().text(text))
    json.loads(Scrubber().text(json.dumps(value, ensure_ascii=False)))


def test_folders_of_this_machine_become_words(monkeypatch, tmp_path):
    work = tmp_path / "wörk of $alice"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("KERNELBOOK_IMAGES", "/opt/images of alice")
    scrub = Scrubber({"h200": "/opt/traces"})
    assert scrub.text(f"in {work}/a.py and {work}") == "in <cwd>/a.py and <cwd>"
    assert scrub.text(json.dumps(f"{work}/a.py")) == '"<cwd>/a.py"'
    assert scrub.text(f"{work}s/a.py").startswith("<tmp>/")
    assert scrub.text("/opt/images of alice/x.sif and /opt/traces/linear/1") == "<images>/x.sif and <h200>/linear/1"
    assert scrub.text(f"{os.path.expanduser('~')}/x") == "<home>/x"


def test_known_credentials_are_hidden_whatever_they_look_like():
    address = "docker://user:pla%69nword@example.org/torch"
    assert passwords_in(address) == ("pla%69nword", "plainword")
    assert passwords_in("docker://example.org:5000/torch@sha256:00") == ()
    assert without_secrets("no plainword: pla%69nword", passwords_in(address)) == "no <secret>: <secret>"
    environment = {"HF_TOKEN": "plainword", "MY_KEY_FILE": "/etc/key", "MAX_TOKEN": "4096", "TOKENIZER": "othersword"}
    assert {*secrets_in(environment)} == {"plainword"}


def test_tables_keep_their_schema_and_whatever_is_no_text():
    secret, path = "password=hunter2", "/home/alice/x"
    table = pa.table(
        {
            "text": pa.array([secret, None, path, "same"]),
            "list": pa.array([[secret, None], None, [], ["same"]]),
            "struct": pa.array([{"a": path, "b": 1}, None, {"a": None, "b": 2}, {"a": "same", "b": 3}]),
            "number": pa.array([1, None, 3, 4]),
            "null": pa.nulls(4),
        }
    )
    found = Scrubber().table(pa.concat_tables([table, table]))
    assert found.schema == table.schema
    assert found.slice(4).to_pydict() == {
        "text": ["password=<secret>", None, "<home>/x", "same"],
        "list": [["password=<secret>", None], None, [], ["same"]],
        "struct": [{"a": "<home>/x", "b": 1}, None, {"a": None, "b": 2}, {"a": "same", "b": 3}],
        "number": [1, None, 3, 4],
        "null": [None] * 4,
    }
    assert Scrubber().table(pa.table({})).num_rows == 0


def test_the_message_of_a_failed_measurement_has_no_credential():
    """The inside of the wall: what goes into measurement.json, and from it into the log."""
    assert files.MachineScrubber()("login with password=hunter2 failed") == "login with password=<secret> failed"
    assert Path(files.SHAPES).is_file()
