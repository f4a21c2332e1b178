"""The plan of an edition: what is measured where, and which changes make a result stale.

In: a `Config` and the machine (torch, driver, images, folders). Out: a `Plan`, from which the Snakemake rules take
their jobs, inputs and parameters.
"""
