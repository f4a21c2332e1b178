"""Nights: one row per night, case and figure, and the changes found in them.

In: editions, one a night. Out: Parquet files of the history, the events of a night with their causes, and the static
site with trends and feed.
"""
