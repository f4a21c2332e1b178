"""Whether two names are of one kernel: torch's profiler and Nsight Compute demangle C++ names in different ways.

ncu leaves out inline namespaces, writes `T2` for a type that stands in the template already, `[lambda() (instance 1)]`
for `{lambda()#1}`, and 0 for false.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 8192
UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>")
INSTANCE = re.compile(r"\s*\(instance (\d+)\)")
LAMBDA = re.compile(r"lambda\(([^()]*)\)")
CALL = re.compile(r"operator\s*\(\)")
CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")
ARGUMENTS = re.compile(r"\([^()]*\)")
WORD = re.compile(r"([A-Za-z_]\w*)(\s*::)?|(\d+)(?:u?l*\b)?")
#: Words that one of the two leaves out, and ncu's names for template parameters.
SILENT = re.compile(r"void|const|enum|struct|class|typename|T\d+")
VALUES = {"true": "1", "false": "0"}


def same_kernel(one: str, other: str) -> bool:
    """Whether the two names, of a trace and of ncu, can be of one kernel."""
    return one == other or words(one) == words(other)


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Names, types and numbers of a demangled name in order, without namespaces and the arguments of functions.

    Arguments of lambdas stay, since overloads of one op differ in nothing else.
    """
    text = UNNAMED.sub("", name[:LONGEST].removesuffix(".kd"))
    text = INSTANCE.sub(r"#\1", text)
    text = LAMBDA.sub(r"lambda<\1>", CALL.sub("operator_call", CAST.sub("", text)))
    while (shorter := ARGUMENTS.sub("~", text)) != text:
        text = shorter
    parts = []
    for match in WORD.finditer(text):
        word, namespace, number = match.groups()
        if number is not None:
            parts.append(number)
        elif namespace is None and not SILENT.fullmatch(word):
            parts.append(VALUES.get(word, word))
    return tuple(parts)


def function_name(kernel: str) -> str:
    """The name that ncu filters by: without namespaces, template, return type and arguments."""
    depth, kept = 0, []
    for sign in UNNAMED.sub("", kernel):
        if sign == "(" and depth == 0:
            break
        depth += (sign == "<") - (sign == ">")
        if depth == 0 and sign != ">":
            kept.append(sign)
    return "".join(kept).split("::")[-1].split(" ")[-1]
