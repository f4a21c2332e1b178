"""The files that a configuration names: workloads, recorded folders, and the files that a workload uses.

In: names and paths. Out: the files that a measurement depends on, their digests, and mistakes in the names of files,
functions, variants and parameters. Sources are parsed with `ast`, never imported.
"""
