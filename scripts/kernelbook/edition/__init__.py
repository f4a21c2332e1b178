"""One edition: collected from the results of its runs, written to a folder, read back for the report."""
