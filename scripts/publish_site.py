"""Publish the nights as a static site: a folder that is replaced atomically and, if asked for, a branch and a webhook.

Example:
  python scripts/publish_site.py --history history --reports reports
  python -m http.server --directory site
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelbook.command import run
from kernelbook.history.rules import rules_of
from kernelbook.history.site.branch import commit_site
from kernelbook.history.site.pages import Site, pages
from kernelbook.history.site.publish import publish, report_sources
from kernelbook.history.site.views import COLUMNS, Book
from kernelbook.history.site.webhook import message, post
from kernelbook.history.store import Store, write_json
from kernelbook.text.formatting import plural, utc_now

DEFAULTS: Mapping[str, Any] = {
    "folder": "site",
    "title": "Kernelbook nights",
    "url": None,
    "docs": None,
    "full_nights": 30,
    "git_branch": None,
    "git_remote": None,
    "git_adopt": False,
    "webhook_env": "KERNELBOOK_WEBHOOK",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 once the site is in place, even if the webhook fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, required=True, help="folder of the history")
    parser.add_argument("--reports", type=Path, default=Path("reports"), help="folder of the reports, one per night")
    parser.add_argument("--publish", type=json.loads, default={}, help="JSON: keys of `publish` in config.yaml")
    parser.add_argument("--rules", type=json.loads, default={}, help="JSON: keys of `history` in config.yaml")
    parser.add_argument("--tell", metavar="NIGHT", help="tell the webhook of this night")
    parser.add_argument("--receipt", type=Path, help="JSON file to write once all is done")
    args = parser.parse_args(argv)
    settings = {**DEFAULTS, **args.publish}
    publish_all(Store(args.history), args.reports, settings, args.rules)
    if args.tell:
        tell(Store(args.history), args.tell, settings)
    if args.receipt:
        write_json(args.receipt, {"folder": settings["folder"], "night": args.tell})
    return 0


def publish_all(store: Store, reports: Path, settings: Mapping[str, Any], rules: Mapping[str, Any]) -> None:
    """Build the site and put it in place. Raises PublishError, BranchError or OSError, and then keeps the old site."""
    history = store.read(columns=COLUMNS)
    judged, damaged = store.read_events()
    book = Book(history, judged, rules_of(rules))
    site = Path(settings["folder"])
    sources = report_sources(reversed(history.nights), reports, site, settings["full_nights"])
    look = Site(settings["title"], utc_now(), settings["url"], len(history.damaged) + len(damaged), settings["docs"])
    publish(pages(book, look, sources.keys(), site), sources, site)
    print(f"published {plural(len(history.nights), 'night')}: {site}/index.html")
    if settings["git_branch"]:
        last = history.nights[-1] if history.nights else "no night"
        branch, remote, adopt = (settings[key] for key in ("git_branch", "git_remote", "git_adopt"))
        commit = commit_site(site, Path.cwd(), branch, f"Nights up to {last}", remote, adopt)
        print(f"branch {branch}: {commit[:12]}")


def tell(store: Store, night: str, settings: Mapping[str, Any]) -> None:
    """Send a message about the night to the webhook if there is news; an error is one line on stderr."""
    judged, _ = store.read_events()
    text = message(judged[night], settings["title"], settings["url"]) if night in judged else None
    trouble = post(text, settings["webhook_env"]) if text else None
    if trouble:
        print(f"publish_site: {trouble}: the site is published all the same", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
