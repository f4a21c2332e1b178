"""The report of an edition: one HTML page, its Markdown twin with figures, summary.json, and the tables beside them."""
