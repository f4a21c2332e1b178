"""`kernelbook summarize`: traces without a workflow.

In: paths of traces and folders. Out: a summary of each for the terminal, as JSON lines, or as tables.
"""
