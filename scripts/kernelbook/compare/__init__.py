"""`make compare A=... B=...`: two environments, workloads or commits, measured in turns until the ratio is known.

In: A and B, a configuration, the precision of the ratios. Out: a `ComparisonResult` with a verdict for each case.
"""
