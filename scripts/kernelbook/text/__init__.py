"""Text for people: numbers with units, names that are safe to print, credentials removed.

In: numbers, and text from any source. Out: strings for a terminal, HTML, Markdown and CSV, and tables as files.
"""
