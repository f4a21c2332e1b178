"""One edition: all runs and cases of one measurement, collected in one folder.

In: the extracted tables and the plan. Out: a folder with one table of each kind and edition.json, and the typed
`Edition` that is read from it.
"""
