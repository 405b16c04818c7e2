"""What all generators share: the salt of a name, and the check of whole arguments."""

from __future__ import annotations

from moeopt.errors import Violations


def salt(name: str) -> int:
    """A number for a distribution's name, so that kinds of one seed do not share their draws.

    >>> salt("zipf1.0"), salt("zipf1.2")
    (1933, 1947)
    """
    return sum(position * ord(letter) for position, letter in enumerate(name, start=1))


def check_whole(name: str, value: object, least: int, check: Violations) -> None:
    """Note a value that is not a whole number of at least `least`.

    >>> check = Violations(); check_whole("layers", 1.5, 1, check); print(check.found[0])
    layers = 1.5: must be a whole number >= 1. Use 1 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        check.refuse(name, value, rule=f"must be a whole number >= {least}", fix=f"Use {least} or more")
