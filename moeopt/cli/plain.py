"""Options of plain kinds, read without the library with which newer parsers read options of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

WHOLE, DECIMAL = re.compile(r"-?[0-9]{1,15}", re.ASCII), re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
READ: dict[Any, Callable[[Any], Any]] = {
    str: lambda value: value if type(value) is str else None,
    bool: lambda value: value if type(value) is bool else None,
    int: lambda value: int(value) if type(value) is int or _is(WHOLE, value) else None,
    float: lambda value: float(value) if type(value) is float or _is(DECIMAL, value) else None,
    list[str]: lambda value: list(value) if all(type(one) is str for one in value) else None,
}
"""By kind: a value that says plainly what it is; ``None``: another one."""


def _is(form: re.Pattern[str], value: Any) -> bool:
    return type(value) is str and form.fullmatch(value) is not None


class Plain:
    """Stands where the parser keeps what it reads an option with, and calls that for all that is not plain."""

    def __init__(self, kind: Any, least: float | None, most: float | None) -> None:
        self.read, self.least, self.most = READ[kind], least, most

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of an option; whatever may be refused goes to the parser, which has the words for it."""
        if value is None:  # not given
            return () if param.multiple or param.nargs == -1 else None
        found = self.read(value)
        if found is None or not self._within(found):
            param._runtime_param = None
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        return found

    def _within(self, value: Any) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def read_plainly(params: Sequence[Any]) -> None:
    """Prepare options without choices, files or parsers of their own; other versions of the parser stay."""
    for param in params:
        described = getattr(param, "type_descriptor", None)
        if getattr(param, "_runtime_param", param) is not None or described is None or described.annotation not in READ:
            continue
        info = described.parameter_info
        own = (getattr(info, name, None) for name in ("parser", "click_type"))
        special = (getattr(described, name, False) for name in ("is_path", "is_choice", "is_file"))
        if not any(one is not None for one in own) and not any(special):
            param._runtime_param = Plain(described.annotation, getattr(info, "min", None), getattr(info, "max", None))
