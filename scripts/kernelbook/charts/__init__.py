"""Charts as SVG, drawn once for the page, report.md and the site of nights.

In: numbers and names. Out: a `Chart`, whose drawings stretch to the size of their box. The page and the site write its
words as HTML; `svg_file` writes drawings and words into one file. `chart.css` has the style of all charts.
"""
