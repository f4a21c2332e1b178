"""Check within a second that pip can reach the packages of a requirements file, as `make setup` does first.

Reads pip's settings (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, PIP_NO_INDEX, PIP_PROXY, its configuration
files) and the proxies of the environment, and opens a connection. If no answer comes within a second, pip has to try.
Needs no package, because it runs before .venv is made.

Example:
  python scripts/check_index.py requirements.txt

Exit status: 0 pip can try; 1 no index can be reached, in one line, and the named folders lack a package; 2 bad
arguments.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import socket
import sys
import threading
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

INDEX = "https://pypi.org/simple"
WAIT_S = 1.0
PORTS = {"http": 80, "https": 443}
_SECTIONS = ("global", "install")
_OFF = ("", "0", "false", "no", "off", "n", "f")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requirements", type=Path, help="a requirements file of pip")
    problem = unreachable(required(parser.parse_args(argv).requirements), pip_settings())
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


def required(file: Path) -> set[str]:
    """The packages that a requirements file names; lines with options are left out."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return {_normal(match[0]) for line in lines if (match := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line))}


def pip_settings() -> dict[str, str]:
    """pip's settings by name (`index-url`): of the environment, else of the configuration file that pip reads last."""
    settings: dict[str, str] = {}
    for file in _configurations():
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip says what is wrong with it
        for section in _SECTIONS:
            settings |= dict(parser[section]) if parser.has_section(section) else {}
    settings = {name.replace("_", "-"): value for name, value in settings.items()}
    in_environment = {name: value for name, value in os.environ.items() if name.startswith("PIP_") and value}
    return settings | {name[4:].lower().replace("_", "-"): value for name, value in in_environment.items()}


def _configurations() -> list[Path]:
    named = os.environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    shared = [Path(folder) / "pip" for folder in os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()) / "pip"
    mac = Path("~/Library/Application Support/pip").expanduser()
    folders = [*shared, Path("/etc"), Path("~/.pip").expanduser(), mac, own, Path(sys.prefix)]
    return [*(folder / "pip.conf" for folder in folders), *([Path(named)] if named else [])]


def unreachable(packages: set[str], settings: dict[str, str]) -> str | None:
    """Why pip cannot find the packages, or None if it can try."""
    no_index = settings.get("no-index", "").lower() not in _OFF
    indexes = [] if no_index else [settings.get("index-url", INDEX), *settings.get("extra-index-url", "").split()]
    places = [*indexes, *settings.get("find-links", "").split()]
    remote = [url for url in map(urlsplit, places) if url.scheme in PORTS and url.hostname]
    local = {name for place in places for name in _in_folder(place)}
    if not remote or packages <= local:
        return None
    targets = {_target(url, settings.get("proxy")) for url in remote}
    failures: dict[tuple[str, int], str] = {}
    threads = [threading.Thread(target=_connect, args=(target, failures), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    if len(failures) < len(targets):
        return None
    return "; ".join(f"{host}:{port}: {why}" for (host, port), why in sorted(failures.items()))


def _in_folder(place: str) -> set[str]:
    """The packages in a folder of wheels, or in an index that is a folder; empty if it does not exist."""
    folder = Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)
    try:
        entries = list(folder.iterdir()) if "://" not in str(folder) else []
    except OSError:
        return set()
    # An archive's name may have dashes before its version: mkdocs-material-9.8.2.tar.gz
    return {_normal(entry.name if entry.is_dir() else re.split(r"-\d", entry.name)[0]) for entry in entries}


def _normal(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _target(url: SplitResult, proxy: str | None) -> tuple[str, int]:
    """Host and port of the first connection: those of the proxy, if there is one."""
    host = url.hostname or ""
    if proxy is None and not proxy_bypass(host):
        proxies = getproxies()
        proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy:
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return url.hostname or host, url.port or PORTS.get(url.scheme, 1080)


def _connect(target: tuple[str, int], failures: dict[tuple[str, int], str]) -> None:
    try:
        socket.create_connection(target, timeout=WAIT_S).close()
    except TimeoutError:
        return  # pip waits longer
    except (OSError, UnicodeError) as error:
        failures[target] = getattr(error, "strerror", None) or str(error)


if __name__ == "__main__":
    sys.exit(main())
