"""Send one JSON message to a webhook, in a separate process that `webhook.post` can kill.

The first argument is the environment variable with the address; the message comes from standard input. Prints nothing
on success, else an error without the address. It has no timeout; `webhook.post` has one. Uses only the standard
library.
"""

from __future__ import annotations

import http.client
import os
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit


def send(address: str, body: bytes) -> str:
    """POST the body; returns an error message, or an empty text. Redirects are not followed, the answer is not read."""
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
    """HTTP and HTTPS through the proxies of the environment; neither follows redirects nor raises on a status."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    return opener


if __name__ == "__main__":
    print(send(os.environ[sys.argv[1]].strip(), sys.stdin.buffer.read()), flush=True)
    os._exit(0)  # without waiting for the rest of an answer
