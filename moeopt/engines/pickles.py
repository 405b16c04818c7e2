"""Pickles read as data: a small machine that knows the plain values and refuses every other word by its name.

Nothing is imported or called for a file: a class or function that a pickle names becomes a `Name`, and what is done
with it is looked up in a table that the caller gives.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moeopt.errors import shortened


class Refused(Exception):
    """What a pickle holds that is not read, in words that fit after its name."""


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that a pickle names; never imported, never called."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


Makers = Mapping[str, Callable[..., Any]]
"""What stands for a named function: called with the arguments that the pickle gives it."""


class Settable:
    """A value that a pickle completes after it was made; `set_state` takes what it gives."""

    def set_state(self, state: Any) -> None:
        """Take the state, or raise `Refused`."""
        raise NotImplementedError


# Opcodes by the names that the module pickletools of Python has for them.
APPEND = 0x61
APPENDS = 0x65
BINFLOAT = 0x47
BINGET = 0x68
BININT = 0x4A
BININT1 = 0x4B
BININT2 = 0x4D
BINPERSID = 0x51
BINPUT = 0x71
BUILD = 0x62
EMPTY_DICT = 0x7D
EMPTY_LIST = 0x5D
EMPTY_TUPLE = 0x29
FRAME = 0x95
GLOBAL = 0x63
LONG1 = 0x8A
LONG_BINGET = 0x6A
LONG_BINPUT = 0x72
MARK = 0x28
MEMOIZE = 0x94
NEWFALSE = 0x89
NEWTRUE = 0x88
NONE = 0x4E
POP = 0x30
PROTO = 0x80
REDUCE = 0x52
SETITEM = 0x73
SETITEMS = 0x75
STACK_GLOBAL = 0x93
STOP = 0x2E
TUPLE = 0x74
TUPLE1 = 0x85
TUPLE3 = 0x87
TEXTS = {0x58: (4, "utf-8"), 0x8C: (1, "utf-8"), 0x8D: (8, "utf-8"), 0x55: (1, "latin1"), 0x54: (4, "latin1")}
"""Width of the length, and coding, of BINUNICODE, SHORT_BINUNICODE, BINUNICODE8, SHORT_BINSTRING and BINSTRING."""
BYTES = {0x43: 1, 0x42: 4, 0x8E: 8}
"""Width of the length of SHORT_BINBYTES, BINBYTES and BINBYTES8."""
_UNREAD = {
    0x81: "makes an object of a class",
    0x92: "makes an object of a class",
    0x69: "makes an object of a class",
    0x6F: "makes an object of a class",
    0x82: "calls a registered extension",
    0x83: "calls a registered extension",
    0x84: "calls a registered extension",
    0x97: "needs a buffer outside of the file",
    0x8F: "holds a set",
    0x90: "holds a set",
    0x91: "holds a set",
}


DEPTH_MAX = 40
VALUES_MAX = 10**8
"""More values than this, with shared ones written out, no recorder has; a file can say so in a few bytes."""


def unpickle(data: bytes, named: Makers, stored: Callable[[Any], Any], known: frozenset[str] = frozenset()) -> Any:
    """The value that a pickle of protocol 2 to 5 spells out.

    Parameters
    ----------
    data
        The whole pickle.
    named
        What stands for each function that may be used, by ``module.name``.
    stored
        Turns a persistent id into a value.
    known
        Further names that may stand in the file as values, such as the types of storages.

    Raises
    ------
    Refused
        A name that is not known, an opcode that makes or calls something, or a pickle that is broken or cut short.

    Examples
    --------
    >>> unpickle(b"\\x80\\x02}X\\x01\\x00\\x00\\x00aK\\x05s.", {}, print)
    {'a': 5}
    >>> unpickle(b"cposix\\nsystem\\nX\\x02\\x00\\x00\\x00id\\x85R.", {}, print)
    Traceback (most recent call last):
    ...
    moeopt.engines.pickles.Refused: names posix.system, which is not read
    """
    try:
        value = _run(data, named, stored, known)
        _measure(value, {}, 0)
        return value
    except (IndexError, struct.error, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise Refused(f"is broken or was cut short ({type(error).__name__})") from error


def _run(data: bytes, named: Makers, stored: Callable[[Any], Any], known: frozenset[str]) -> Any:
    stack: list[Any] = []
    marks: list[list[Any]] = []
    memo: dict[int, Any] = {}
    at, end = 0, len(data)
    while at < end:
        code = data[at]
        at += 1
        if code == BININT1:  # the whole numbers of long lists come first
            stack.append(data[at])
            at += 1
        elif code == BININT2:
            stack.append(data[at] | data[at + 1] << 8)
            at += 2
        elif code == BININT:
            stack.append(struct.unpack_from("<i", data, at)[0])
            at += 4
        elif code == BINPUT:
            memo[data[at]] = stack[-1]
            at += 1
        elif code == LONG_BINPUT:
            memo[struct.unpack_from("<I", data, at)[0]] = stack[-1]
            at += 4
        elif code == MEMOIZE:
            memo[len(memo)] = stack[-1]
        elif code == BINGET:
            stack.append(memo[_known_key(memo, data[at])])
            at += 1
        elif code == LONG_BINGET:
            stack.append(memo[_known_key(memo, struct.unpack_from("<I", data, at)[0])])
            at += 4
        elif code == MARK:
            marks.append(stack)
            stack = []
        elif code in TEXTS:
            width, coding = TEXTS[code]
            raw, at = _sized(data, at, width)
            stack.append(raw.decode(coding, "surrogatepass" if coding == "utf-8" else "strict"))
        elif code in BYTES:
            raw, at = _sized(data, at, BYTES[code])
            stack.append(raw)
        elif code == BINFLOAT:
            stack.append(struct.unpack_from(">d", data, at)[0])
            at += 8
        elif code == LONG1:
            raw, at = _sized(data, at, 1)
            stack.append(int.from_bytes(raw, "little", signed=True))
        elif code == NONE:
            stack.append(None)
        elif code == NEWTRUE:
            stack.append(True)
        elif code == NEWFALSE:
            stack.append(False)
        elif code == EMPTY_DICT:
            stack.append({})
        elif code == EMPTY_LIST:
            stack.append([])
        elif code == EMPTY_TUPLE:
            stack.append(())
        elif code == TUPLE:
            items, stack = stack, marks.pop()
            stack.append(tuple(items))
        elif TUPLE1 <= code <= TUPLE3:
            count = code - TUPLE1 + 1
            if len(stack) < count:
                raise IndexError("too few values")
            stack[-count:] = [tuple(stack[-count:])]
        elif code == APPEND:
            item = stack.pop()
            _list(stack[-1]).append(item)
        elif code == APPENDS:
            items, stack = stack, marks.pop()
            _list(stack[-1]).extend(items)
        elif code == SETITEM:
            item, key = stack.pop(), stack.pop()
            _dict(stack[-1])[_plain_key(key)] = item
        elif code == SETITEMS:
            items, stack = stack, marks.pop()
            target = _dict(stack[-1])
            if len(items) % 2:
                raise ValueError("a key without a value")
            for key, item in zip(items[::2], items[1::2], strict=True):
                target[_plain_key(key)] = item
        elif code == GLOBAL:
            line = data.index(b"\n", at)
            after = data.index(b"\n", line + 1)
            stack.append(_name(data[at:line].decode(), data[line + 1 : after].decode(), named, known))
            at = after + 1
        elif code == STACK_GLOBAL:
            name, module = stack.pop(), stack.pop()
            if type(name) is not str or type(module) is not str:
                raise TypeError("a name that is no text")
            stack.append(_name(module, name, named, known))
        elif code == REDUCE:
            arguments, function = stack.pop(), stack.pop()
            stack.append(_make(function, arguments, named))
        elif code == BUILD:
            state = stack.pop()
            if not isinstance(stack[-1], Settable):
                raise Refused("sets the inside of an object, which is not done")
            stack[-1].set_state(state)
        elif code == BINPERSID:
            stack.append(stored(stack.pop()))
        elif code == PROTO:
            if data[at] > 5:
                raise Refused(f"is a pickle of protocol {data[at]}, and 2 to 5 are read")
            at += 1
        elif code == FRAME:
            at += 8
        elif code == POP:
            stack.pop()
        elif code == STOP:
            if len(stack) != 1 or marks:
                raise ValueError("values left over")
            return stack[0]
        else:
            what = _UNREAD.get(code, f"uses opcode {code:#04x}")
            raise Refused(f"{what}, which is not read")
    raise ValueError("no end")


def _measure(value: Any, sizes: dict[int, int], depth: int) -> int:
    """How many values there are if shared ones are written out; too many, or too deep, is refused."""
    if type(value) not in (list, tuple, dict):
        return 1
    if id(value) in sizes:
        return sizes[id(value)]
    if depth > DEPTH_MAX:
        raise Refused(f"is nested more than {DEPTH_MAX} deep")
    items = value.values() if type(value) is dict else value
    total = len(value) + sum(_measure(item, sizes, depth + 1) for item in items if type(item) in (list, tuple, dict))
    if total > VALUES_MAX:
        raise Refused(f"has more than {VALUES_MAX:,} values")
    sizes[id(value)] = total
    return total


def _plain_key(key: Any) -> Any:
    if type(key) not in (str, int, float, bool, bytes, type(None)):
        raise TypeError("a key that is not plain")
    return key


def _known_key(memo: dict[int, Any], key: int) -> int:
    if key not in memo:
        raise ValueError("a value that was never stored")
    return key


def _sized(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    size = int.from_bytes(data[at : at + width], "little")
    start = at + width
    if start + size > len(data):
        raise ValueError("cut short")
    return data[start : start + size], start + size


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise TypeError("not a dict")
    return value


def _name(module: str, name: str, named: Makers, known: frozenset[str]) -> Name:
    found = Name(module, name)
    if str(found) not in named and str(found) not in known:
        shown = str(found).encode("unicode_escape", "backslashreplace").decode()
        raise Refused(f"names {shortened(shown)}, which is not read")
    return found


def _make(function: Any, arguments: Any, named: Makers) -> Any:
    if not isinstance(function, Name) or str(function) not in named or type(arguments) is not tuple:
        raise Refused("calls something that is no known function")
    return named[str(function)](*arguments)
