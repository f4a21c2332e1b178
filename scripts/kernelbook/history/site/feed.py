"""Changes for other programs: an Atom feed (RFC 4287) and latest.json."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from typing import Any
from xml.etree import ElementTree as Xml

from kernelbook.history.night_events import NightEvent
from kernelbook.history.site.views import Book, Night

ATOM = "http://www.w3.org/2005/Atom"
ENTRIES = 50
_NAMESPACE = uuid.UUID("6f1c7d0e-5a52-4b0b-9a39-3f4f6a2d8c11")  # made once for this feed's ids


def atom_feed(book: Book, title: str, published: str, url: str | None) -> str:
    """The last 50 events. An entry's id depends on its event only, so that readers show it once."""
    Xml.register_namespace("", ATOM)
    feed = Xml.Element(f"{{{ATOM}}}feed")
    base = f"{url.rstrip('/')}/" if url else ""
    _text(feed, "title", f"{title}: changes")
    _text(feed, "id", _id(f"feed {url or title}"))
    judged = [judged_night.get("judged_utc") or "" for judged_night in book.judged.values()]
    _text(feed, "updated", max(judged, default="") or published)
    _link(feed, f"{base}feed.xml", rel="self")
    _link(feed, f"{base}index.html", rel="alternate")
    _text(Xml.SubElement(feed, f"{{{ATOM}}}author"), "name", title)
    for event in book.events[:ENTRIES]:
        entry = Xml.SubElement(feed, f"{{{ATOM}}}entry")
        where = f"{event.case} on {event.run}" if event.case else event.run or "The night"
        _text(entry, "title", f"{where}: {event.text}")
        _text(entry, "id", _id(f"event {event.id}"))
        _text(entry, "updated", _reported_at(book, event, published))
        _link(entry, base + book.event_link(event), rel="alternate")
        _text(entry, "summary", "\n".join((f"Since {event.night}. {event.text}", *event.reasons)))
    Xml.indent(feed)
    return Xml.tostring(feed, encoding="unicode", xml_declaration=True) + "\n"


def _reported_at(book: Book, event: NightEvent, default: str) -> str:
    return book.judged.get(event.found, {}).get("judged_utc") or default


def _id(what: str) -> str:
    return uuid.uuid5(_NAMESPACE, what).urn


def _text(parent: Xml.Element, name: str, text: str) -> None:
    Xml.SubElement(parent, f"{{{ATOM}}}{name}").text = xml_text(text)


def _link(parent: Xml.Element, href: str, rel: str) -> None:
    Xml.SubElement(parent, f"{{{ATOM}}}link", {"rel": rel, "href": href, "type": _TYPES[href.rpartition(".")[2]]})


_TYPES = {"xml": "application/atom+xml", "html": "text/html"}


def xml_text(text: str) -> str:
    """Text without characters that XML 1.0 forbids."""
    return "".join(
        sign
        for sign in text
        if sign in "\t\n\r" or "\x20" <= sign <= "\ud7ff" or "\ue000" <= sign <= "\ufffd" or sign > "\uffff"
    )


def latest_json(night: Night | None, reports: Collection[str]) -> str:
    """The last night: schema, edition, verdict, links and its events file; edition is null without a night."""
    if night is None:
        record: dict[str, Any] = {"schema": 1, "edition": None}
    else:
        report = f"nights/{night.edition}/report/index.html" if night.edition in reports else None
        record = {
            "schema": 1,
            "edition": night.edition,
            "verdict": night.verdict,
            "page": night.link,
            "report": report,
            "cases": night.cases,
            "judged": dict(night.judged) or None,
        }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"
