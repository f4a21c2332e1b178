"""A kernel's name made readable: demangled, and split into the function's own name, its template and its words."""

from __future__ import annotations

import re
from functools import lru_cache

#: Longer names are cut: what a name says stands at its front, and every step stays quick on untrusted text.
LONGEST = 4096
LONGEST_MANGLED = 2048
#: Functions that only call what their template names.
CALLERS = {"kernel", "Kernel", "Kernel2", "device_kernel", "kentry", "_kernel_agent", "globalKernel", "run"}
CAST = re.compile(r"\((?:unsigned )?(?:int|long|bool|char)\)(?=-?\d)")
BRACKET = re.compile(r"[<>()]")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def readable(name: str) -> str:
    """The name demangled, with Nsight's ``(int)4``, ``<unnamed>`` and AMD's ``.kd`` written as torch writes them."""
    text = name[:LONGEST].removesuffix(".kd")
    if text.startswith("_Z"):
        return demangled(text[:LONGEST_MANGLED]) or text
    text = CAST.sub("", text).replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    return text.replace("[lambda", "{lambda").removeprefix("void ")


def head_and_template(text: str) -> tuple[str, str]:
    """The function's qualified name without return type and arguments, and the text of its template arguments."""
    depth, kept, start, opened, end = 0, [], 0, 0, len(text)
    for found in BRACKET.finditer(text):
        sign, at = found.group(), found.start()
        if sign == "<":
            if depth == 0:
                kept.append(text[start:at])
                opened = at + 1
            depth += 1
        elif sign == ">" and depth:
            depth -= 1
            start = at + 1
        elif sign == "(" and depth == 0 and at:
            end = at
            break
    kept.append(text[start:end] if depth == 0 else "")
    head = "".join(kept).strip().rsplit(" ", 1)[-1]
    return head, text[opened:end] if opened else ""


@lru_cache(maxsize=1024)
def words(identifier: str) -> str:
    """The words of an identifier in lower case: ``fusedQKNorm_kernel2`` -> ``fused qk norm kernel 2``."""
    return " ".join(WORD.findall(identifier)).lower()


BUILTIN = {
    "a": "signed char", "b": "bool", "d": "double", "f": "float", "h": "unsigned char", "i": "int", "l": "long",
    "s": "short", "DF16b": "__bf16", "DF16_": "_Float16",
}  # fmt: skip
MANGLED = re.compile(
    r"(?P<literal>L[a-z]n?\d+E)|(?P<type>DF16b|DF16_|[a-z])|(?P<length>[1-9]\d*)|(?P<open>Ul|[NIJLXZ])|(?P<close>E)"
    r"|D(?:v\d+_|[a-z])|S[A-Z0-9]*_|S[a-z]|T\d*_|."
)
ENUM_VALUE = re.compile(r"(n?\d+)E")
LAMBDA_NUMBER = re.compile(r"\d*_")
CLOSING = {"I": ">", "Ul": ")}"}


def demangled(name: str) -> str:
    """An Itanium C++ name in readable form, without its call arguments; also of a name that was cut off.

    Names, literals and built-in types are written out; references to earlier parts (``S1_``) and to template parameters
    are left out: what they refer to stands in full where it comes first.
    """
    out: list[str] = []
    frames: list[list] = [["", 0]]  # kind, parts so far

    def add(part: str) -> None:
        kind, parts = frames[-1]
        out.append(("::" if kind == "N" else ", ") * bool(parts) + part)
        frames[-1][1] += 1

    at = 2
    while (found := MANGLED.match(name, at)) and (len(frames) > 1 or not out or name[at] == "I"):
        token, part, at = found.lastgroup, found.group(), found.end()
        kind = frames[-1][0]
        if token == "length":
            add(name[at : at + int(part[:4])])
            at += int(part[:4])
        elif token == "literal":
            add(part[2:-1])
        elif token == "type" and kind in ("I", "J", "Ul"):
            add(BUILTIN.get(part, part))
        elif token == "open" and (part != "L" or kind in ("I", "J")):  # elsewhere L marks internal linkage
            if part == "I":
                out.append("<")
            else:
                add("{lambda(" if part == "Ul" else "")
            frames.append([part, 0])
        elif token == "close" and len(frames) > 1:
            out.append(CLOSING.get(frames.pop()[0], ""))
            if kind == "Ul" and (number := LAMBDA_NUMBER.match(name, at)):
                at = number.end()
        if frames[-1][0] == "L" and (value := ENUM_VALUE.match(name, at)):
            add(value[1])
            frames.pop()
            at = value.end()
    return "".join(out)
