"""Times, numbers and quantiles: values worked out by hand."""

from __future__ import annotations

import pytest

from kernelbook.text.formatting import at_border, duration, plural, quantile, significant, unbroken


@pytest.mark.parametrize(
    ("us", "said"),
    [
        (None, "n/a"),
        (0.0, "0"),
        (0.004, "0.00 µs"),
        (0.736, "0.74 µs"),
        (0.9997, "1.00 µs"),
        (2.72, "2.72 µs"),
        (9.997, "10.0 µs"),
        (99.97, "100 µs"),
        (127.6, "128 µs"),
        (999.4, "999 µs"),
        (999.7, "1.00 ms"),
        (1000.0, "1.00 ms"),
        (2638.9, "2.64 ms"),
        (999_700.0, "1.00 s"),
        (-127.6, "-128 µs"),
    ],
)
def test_a_duration_has_three_digits_in_the_unit_that_reads_best(us: float | None, said: str) -> None:
    assert duration(us) == said


def test_significant_digits_are_kept_where_rounding_adds_one() -> None:
    assert [significant(v) for v in (0.736, 2.7, 9.995001, 99.95001, 945, 2634.0)] == [
        *("0.736", "2.70", "10.0", "100", "945", "2,634"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("triton_poi_fused_add_mul", "triton_poi_fused_add_mul"),  # 24 characters: it fits
        ("triton_per_fused__softmax_exp", "triton_per_fused…"),
        ("triton_poi_fused_gelu_mul_0", "triton_poi_fused_gelu…"),
        ("at::native::vectorized_elementwise", "at::native::vectorized…"),
        ("x" * 30, "x" * 23 + "…"),
        ("a_" + "x" * 30, "a_" + "x" * 21 + "…"),  # a word alone would leave next to nothing
    ],
)
def test_a_long_name_ends_after_a_whole_word(name: str, said: str) -> None:
    assert at_border(name, 24) == said


def test_plural_and_quantile() -> None:
    assert [plural(n, "launch", "launches") for n in (0, 1, 2, 1000)] == [
        *("0 launches", "1 launch", "2 launches", "1,000 launches"),
    ]  # fmt: skip
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.95) == 3.0
    assert quantile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert quantile([0.0, 10.0], 0.05) == 0.5


def test_no_line_breaks_between_a_number_and_its_unit() -> None:
    text = "by 1.01 ms (71 %) of 3 s, 5 segments, 4 MiB at 12 GB/s, 100 → 119 µs"
    assert unbroken(text) == (
        "by 1.01\u00a0ms (71\u00a0%) of 3\u00a0s, 5 segments, 4\u00a0MiB at 12\u00a0GB/s, 100 → 119\u00a0µs"
    )
