"""Options that have one value are given once: a second one would silently replace the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand

from moeopt.cli.plain import read_plainly
from moeopt.errors import Violations


class OnceCommand(TyperCommand):
    """A verb that refuses an option whose value would be dropped, with every value that was given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look at the words before the parser keeps only the last value of each option."""
        refuse_dropped(self.params, args)
        read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)


def refuse_dropped(params: Sequence[Any], words: Sequence[str]) -> None:
    """Refuse options of one value that have several different ones; lists, flags and arguments may come again.

    Raises
    ------
    InstanceError
        One violation for each such option, with its values in their order.
    """
    named = {name: param for param in params for name in param.opts if name.startswith("-")}
    found: dict[str, list[str]] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            break
        name, joined, value = word.partition("=") if word.startswith("--") else _short(word, named)
        param = named.get(name)
        if param is None or getattr(param, "is_flag", False) or getattr(param, "count", False):
            continue
        if not joined:
            if not left:
                break
            value = left.pop(0)
        if not param.multiple and param.nargs == 1:
            found.setdefault(_shown(param), []).append(value)
    check = Violations()
    for name, values in found.items():
        different = list(dict.fromkeys(values))
        if len(different) > 1:
            said = " and ".join([", ".join(different[:-1]), different[-1]])
            check.add(name, said, rule="has one value, and all but the last would be dropped", fix="Keep one of them")
    check.raise_if_any()


def _short(word: str, named: dict[str, Any]) -> tuple[str, str, str]:
    """An option of one letter, whether its value is in the same word, and that value: ``-oFILE``, ``-qo FILE``."""
    for place in range(1, len(word)) if word.startswith("-") else ():
        name, rest = f"-{word[place]}", word[place + 1 :]
        param = named.get(name)
        if param is not None and not getattr(param, "is_flag", False):
            return name, rest, rest
    return "", "", ""


def _shown(param: Any) -> str:
    """The longest name of an option."""
    return str(max(param.opts, key=len))
