"""The files that a configuration names: workloads, recorded folders, and what a workload imports.

In: names and paths. Out: the files that a measurement depends on, with their hashes, and mistakes in the names of
files, functions, variants and parameters. Sources are parsed with `ast`, never imported.
"""
