"""Sends one JSON message to a webhook, as a process of its own that `webhook.post` can end.

The address is in the environment variable that the first argument names, the message on standard input. Prints what
went wrong, never the address; prints nothing if the message was taken. It waits without limit: `webhook.post` has one.
Uses the standard library alone.
"""

from __future__ import annotations

import http.client
import os
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit


def send(address: str, body: bytes) -> str:
    """POST the body; returns what went wrong, or an empty text. Redirects are not followed, the answer is not read."""
    try:
        if urlsplit(address).scheme not in ("http", "https"):
            return "has no address that begins with http:// or https://"
        request = urllib.request.Request(address, data=body, headers={"Content-Type": "application/json"})
        with _opener().open(request) as answer:
            status = answer.status
    except urllib.error.URLError as error:
        return f"could not be reached ({type(error.reason).__name__})"
    except (OSError, ValueError, OverflowError, http.client.HTTPException) as error:
        return f"could not be reached ({type(error).__name__})"
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"answered {status}, a redirect, which is not followed: set the address that it leads to"
    return f"answered {status}"


def _opener() -> urllib.request.OpenerDirector:
    """Speaks HTTP and HTTPS, through the proxies of the environment, and neither follows nor raises on any status."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    return opener


if __name__ == "__main__":
    print(send(os.environ[sys.argv[1]].strip(), sys.stdin.buffer.read()), flush=True)
    os._exit(0)  # without waiting for the rest of an answer
