"""Refuses a Python that is too old, with a message. Every Python from 3.7 on can read this file."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys

OLDEST = (3, 9)


def refuse_old_python(arguments, version=sys.version_info):
    """End a process whose Python is too old to read the rest, with a line on stderr.

    If the arguments name a readable case file and a folder, a failed measurement.json is written there and the exit
    status is 0, else it is 2.
    """
    if tuple(version[:2]) >= OLDEST:
        return
    reason = "this is Python {}.{}.{}, and measuring needs {}.{} or later: ".format(*version[:3], *OLDEST)
    reason += "use an image with a newer Python, or name one that it has (python: in the config)"
    sys.stderr.write("profile_case: {}\n".format(reason))  # noqa: UP032
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--case-file")
    parser.add_argument("--output")
    options, _ = parser.parse_known_args(arguments)
    sys.exit(0 if options.case_file and options.output and _leave(options.case_file, options.output, reason) else 2)


def _leave(case_file, folder, reason):
    """Write the failed measurement; whether that was possible."""
    started = datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        with open(case_file, encoding="utf-8") as file:
            case = json.load(file)
        os.makedirs(folder, exist_ok=True)
        record = {"schema": 1, "case": case, "status": "failed", "reason": reason, "started_utc": started}
        with open(os.path.join(folder, "measurement.json"), "w", encoding="utf-8") as file:
            json.dump(record, file)
    except (OSError, ValueError):
        return False
    return isinstance(case, dict)
