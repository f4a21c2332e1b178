"""Charts as SVG, drawn once for the page, report.md and the site of nights.

In: numbers and names. Out: a `Chart`, whose drawings stretch to the size they are given; the page and the site write
the words beside them as HTML, `svg_file` writes a file that holds both. `chart.css` has the style of all.
"""
