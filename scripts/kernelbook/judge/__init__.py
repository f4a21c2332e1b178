"""Conclusions from the figures of all cases of an edition.

In: `CaseFacts` and the guesses of the configuration. Out: an `Insight` with judged guesses, findings and remedies,
costs against ceilings, comparisons, clock checks, trust, and the opening sentences of the report.
"""
