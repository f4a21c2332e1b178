"""Judgement: what is concluded from the figures of all cases of an edition.

In: `CaseFacts` and the guesses of the configuration. Out: an `Insight`: judged guesses, findings with remedies, costs
against ceilings, comparisons, clock checks, trust, and the opening sentences of the report.
"""
