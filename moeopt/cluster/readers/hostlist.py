"""Host lists as Slurm writes them: ``n[001-016,020],r[1-2]b[01-04],login``."""

from __future__ import annotations

import re
from itertools import product

from moeopt.errors import Violations

MOST_HOSTS = 100_000


def expand(text: str, check: Violations, where: str = "") -> list[str]:
    """Names of a host list in order, padding of numbers kept; faults are noted and give fewer names.

    >>> check = Violations()
    >>> expand("n[08-10,x],b3,r[1-2]c[1-2]", check)
    ['n08', 'n09', 'n10', 'nx', 'b3', 'r1c1', 'r1c2', 'r2c1', 'r2c2']
    >>> expand("n[3-1]", check), str(check.found[0])
    ([], 'hosts = n[3-1]: the range 3-1 runs backwards. Write the lower number first.')
    """
    found: list[str] = []
    for part in _parts(text, check, where):
        found.extend(_names(part, check, where))
        if len(found) > MOST_HOSTS:
            rule = f"are more than the {MOST_HOSTS:,} hosts that are read"
            check.add("hosts", text, rule=rule, fix="Check the ranges", where=where)
            return []
    return found


def _parts(text: str, check: Violations, where: str) -> list[str]:
    """Split at the commas outside of brackets."""
    found, depth, at = [], 0, 0
    for place, sign in enumerate(text):
        if sign in "[]":
            depth += 1 if sign == "[" else -1
        elif sign == "," and depth == 0:
            found.append(text[at:place])
            at = place + 1
        if depth not in (0, 1):
            break
    if depth:
        check.add("hosts", text, rule="brackets do not match", fix="Was the line cut short?", where=where)
        return []
    return [part.strip() for part in [*found, text[at:]] if part.strip()]


def _names(part: str, check: Violations, where: str) -> list[str]:
    pieces = re.split(r"\[([^\]]*)\]", part)  # text, range, text, range, ..., text
    choices = [[piece] if place % 2 == 0 else _range(piece, part, check, where) for place, piece in enumerate(pieces)]
    size = 1
    for choice in choices:
        size *= len(choice)
        if size > MOST_HOSTS:
            rule = f"are more than the {MOST_HOSTS:,} hosts that are read"
            check.add("hosts", part, rule=rule, fix="Check the ranges", where=where)
            return []
    return ["".join(one) for one in product(*choices)]


def _range(text: str, part: str, check: Violations, where: str) -> list[str]:
    found: list[str] = []
    for piece in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", piece.strip())
        if match is None:
            found.append(piece.strip())
            continue
        low, high = int(match[1]), int(match[2])
        if high < low:
            rule = f"the range {piece.strip()} runs backwards"
            check.add("hosts", part, rule=rule, fix="Write the lower number first", where=where)
        elif high - low >= MOST_HOSTS:
            rule = f"are more than the {MOST_HOSTS:,} hosts that are read"
            check.add("hosts", part, rule=rule, fix="Check the ranges", where=where)
        else:
            found.extend(str(number).zfill(len(match[1])) for number in range(low, high + 1))
    return found
