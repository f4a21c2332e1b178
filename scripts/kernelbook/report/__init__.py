"""The report of an edition.

In: an `Edition`. Out: one HTML page, its Markdown twin with figures, summary.json, and the tables as CSV and Parquet.
"""
