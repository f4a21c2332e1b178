"""The ranks of one job: what each computed and communicated, who came last, who waited, and why.

In: the readings of the traces of its ranks. Out: `JobReport`: the rows of the tables `ranks` and `collectives`, and
remarks in sentences.
"""
