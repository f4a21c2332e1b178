"""What the engine says of forwards, in the form of the plain second reading."""

from collections import Counter


def counted(reading):
    """Per forward the rows and activities that `plain_forwards.forwards` counts."""
    activities, calls = reading.forwards()
    found = {}
    for row in calls.to_pylist():
        rows, _ = found.setdefault(row["index"], (Counter(), Counter()))
        rows[row["category"], row["name"], row["inferred"]] += 1
    for row in activities.to_pylist():
        found.setdefault(row["index"], (Counter(), Counter()))[1][row["name"], row["inferred"]] += 1
    return found
