"""Makes the tables of measured processes.

In: measurement.json and trace.json.gz, or a trace alone. Out: tables of the case, its ranges, ops, kernels,
activities and calls. Damaged or lost results become a failed row with a reason, never an exception.
"""
