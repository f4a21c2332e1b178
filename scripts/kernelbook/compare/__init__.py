"""`make compare A=... B=...`: two environments, workloads or commits, measured in turns until the ratio is known.

In: what A and B are, a configuration, how exact the ratios must be. Out: a `ComparisonResult` with a verdict a case.
"""
