"""The columns of Nsight Compute that a measurement keeps."""

from workloads.harness.counters import kept_columns


def test_a_name_longer_than_csvs_own_limit_is_kept():
    name = "k" * 200_000
    lines = ['"ID","Kernel Name","gpu__time_duration.sum"', '"","","us"', f'"0","{name}","3"']
    assert name in kept_columns("\n".join(lines))
