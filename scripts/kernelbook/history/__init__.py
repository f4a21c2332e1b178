"""The history of nightly editions, and the changes in it.

In: editions, one per night. Out: Parquet files of the history, the events of a night with their causes, and the static
site with trends and feed.
"""
