"""Preparing a kernel's name: demangled, and split into the function's own name, its template and its words."""

from __future__ import annotations

import re
from functools import lru_cache

#: Longer names are cut, so that untrusted text costs little; the front of a name states the most.
LONGEST = 4096
LONGEST_MANGLED = 2048
#: Wrappers: functions that only call what their template names.
CALLERS = {"kernel", "Kernel", "Kernel2", "device_kernel", "kentry", "_kernel_agent", "globalKernel", "run"}
CAST = re.compile(r"\((?:unsigned )?(?:int|long|bool|char)\)(?=-?\d)")
QUALIFIED = re.compile(r"[A-Za-z_][\w:]*")
BRACKET = re.compile(r"[<>()]")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def readable(name: str) -> str:
    """The demangled name as torch writes it, without Nsight's ``(int)4`` and ``<unnamed>`` and AMD's ``.kd``."""
    text = name[:LONGEST].removesuffix(".kd")
    if text.startswith("_Z"):
        return demangled(text[:LONGEST_MANGLED]) or text
    text = CAST.sub("", text).replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    return text.replace("[lambda", "{lambda").removeprefix("void ")


def head_and_template(text: str) -> tuple[str, str]:
    """The function's qualified name without return type and arguments, and the text of its template arguments."""
    kept: list[str] = []
    depth, start, opened, end = 0, 0, 0, len(text)
    for bracket in BRACKET.finditer(text):
        sign, at = bracket.group(), bracket.start()
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


@lru_cache(maxsize=16384)
def function_name(name: str) -> str:
    """The function without namespaces and template; of a wrapper that of the first function in its template.

    Copies and memsets keep their words: ``Memcpy DtoD``.
    """
    text = readable(name)
    if text.startswith(("Memcpy", "Memset")):
        return text.partition(" (")[0]
    head, template = head_and_template(text)
    base = head.rpartition("::")[2]
    while base in CALLERS or base.startswith("enable_"):
        inner = QUALIFIED.match(template)
        if inner is None:
            break
        head, template = head_and_template(template[inner.start() :])
        base = inner.group().rpartition("::")[2]
    return base or text


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
    """A C++ name mangled by the Itanium ABI, demangled enough to decode it; it may be cut off at the end.

    Names, literals and built-in types are written out, of the call arguments only the pointers. References to earlier
    parts (``S1_``) and to template parameters are skipped: the part itself is in the name.
    """
    out: list[str] = []
    kinds, filled = [""], [False]  # of the open brackets, innermost last: kind, and whether a part is in it

    def add(part: str) -> None:
        separator = "::" if kinds[-1] == "N" else ", "
        out.append(separator * filled[-1] + part)
        filled[-1] = True

    at = 2
    while (match := MANGLED.match(name, at)) and (len(kinds) > 1 or not out or name[at] == "I"):
        token, part, at = match.lastgroup, match.group(), match.end()
        kind = kinds[-1]
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
            kinds.append(part)
            filled.append(False)
        elif token == "close" and len(kinds) > 1:
            out.append(CLOSING.get(kinds.pop(), ""))
            filled.pop()
            if kind == "Ul" and (number := LAMBDA_NUMBER.match(name, at)):
                at = number.end()
        if kinds[-1] == "L" and (value := ENUM_VALUE.match(name, at)):
            add(value[1])
            kinds.pop()
            filled.pop()
            at = value.end()
    types = ", ".join(pointed(name, at))
    return "".join(out) + (f"({types})" if types else "")


def pointed(name: str, at: int) -> list[str]:
    """``float*`` for each call argument from ``at`` on that points to a built-in or a named type."""
    types: list[str] = []
    pointer = False
    while match := MANGLED.match(name, at):
        part, at = match.group(), match.end()
        if match.lastgroup == "length":
            length = int(part[:4])
            part = name[at : at + length]
            at += length
        if pointer and match.lastgroup in ("length", "type"):
            types.append(BUILTIN.get(part, part) + "*")
        pointer = part == "P" or (pointer and part in "KV")
    return types
