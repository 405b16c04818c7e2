"""What every verb has in common: options taken from dataclasses, errors turned into exit codes."""

from __future__ import annotations

import errno
import functools
import inspect
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from moeopt.cli import INTERRUPTED
from moeopt.cli.piped import read_once, refuse_twice
from moeopt.cli.say import Common, Say, complain, few
from moeopt.cli.spoken import spoken, spoken_violation
from moeopt.errors import InstanceError, MoeoptError, PlanError

DONE, OUR_FAULT, BAD_USAGE, INFEASIBLE, NO_PLAN, GATE = 0, 1, 2, 3, 4, 5

COMMAND: ContextVar[tuple[str, ...]] = ContextVar("COMMAND", default=())
"""The words of the command line being run, for the headers of reports."""


def verb(function: Callable[..., int]) -> Callable[..., int]:
    """Make a command of a function: a parameter that is a dataclass becomes one option a field.

    A parameter of type `Say` brings the options of `Common`. Errors are printed to standard error, one violation a
    line, and become the exit code.
    """
    hints = get_type_hints(function, include_extras=True)
    del hints["return"]
    groups = {name: Common if kind is Say else kind for name, kind in hints.items() if _is_group(kind)}
    parameters, annotations = [], {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            annotations[name] = hints[name]
    for kind in groups.values():
        types = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            assert field.default is not MISSING and field.name not in annotations
            annotations[field.name] = types[field.name]
            parameters.append(
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=types[field.name],
                )
            )

    typed = {name: _typed(name, hint) for name, hint in annotations.items() if name != "output"}

    @functools.wraps(function)
    def run(**given: Any) -> int:
        common = Common()
        arguments = {name: given[name] for name in hints if name not in groups}
        for name, kind in groups.items():
            group = kind(**{field.name: given[field.name] for field in fields(kind)})
            if isinstance(group, Common):
                common = group
            arguments[name] = Say(common) if hints[name] is Say else group
        work = functools.partial(_once, function, arguments, typed, given)
        return _guarded(functools.partial(_shown, work, given) if given.get("show_python") else work, common)

    del run.__dict__["__wrapped__"]  # the parser reads the signature made here
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = annotations
    run.__doc__ = _flowing(function.__doc__)
    return run


def _once(function: Callable[..., int], arguments: dict[str, Any], typed: dict[str, str], given: dict[str, Any]) -> int:
    """Run a verb, in which standard input is read at most once."""
    refuse_twice((name, given[key]) for key, name in typed.items())
    with read_once():
        return function(**arguments)


def _shown(work: Callable[[], int], given: dict[str, Any]) -> int:
    """Print the Python that a command is, in place of what it would do."""
    from moeopt.cli.as_python.script import shown

    found = shown(work, given, COMMAND.get())
    if isinstance(found, int):
        return found
    Say(Common()).line(found)
    return DONE


def _typed(name: str, hint: Any) -> str:
    """How an option or an argument is called on the command line."""
    for extra in getattr(hint, "__metadata__", ()):
        option = getattr(extra, "default", None)  # in `Annotated`, where typer looks for the name of an option first
        if isinstance(option, str) and option.startswith("-"):
            return option
        return str(getattr(extra, "metavar", None) or name).strip("[].").upper()
    return name


def _flowing(text: str | None) -> str:
    """Help whose paragraphs wrap where the terminal ends, not where the source does.

    >>> _flowing("One.\\n\\n    Two\\n    lines.\\n    ")
    'One.\\n\\nTwo lines.'
    """
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n"))


def _is_group(kind: Any) -> bool:
    return kind is Say or (inspect.isclass(kind) and is_dataclass(kind))


def _guarded(work: Callable[[], int], common: Common) -> int:
    try:
        return work()
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO):
            raise  # standard output is full: `main` says so
        if common.debug:
            traceback.print_exc()
        if isinstance(error, MoeoptError):
            for line in _lines(error, common.verbose):
                complain(line)
            return BAD_USAGE
        if isinstance(error, MemoryError):
            complain(f"there is not enough memory for this input: {error or 'all of it is taken'}")
            return BAD_USAGE
        if isinstance(error, RecursionError):
            complain("the input nests lists or objects hundreds deep, and no document does. Repair the file")
            return BAD_USAGE
        complain(f"this is a fault of moeopt, please report it: {type(error).__name__}: {error}")
        if not common.debug:
            complain("the same command with --debug shows where it happened")
        return OUR_FAULT


def _lines(error: MoeoptError, everything: bool) -> list[str]:
    if isinstance(error, InstanceError):
        return few([f"{error.file_of(one)}{spoken_violation(one)}" for one in error.violations], everything)
    if isinstance(error, PlanError):
        return few(error.faults, everything)
    return spoken(str(error)).splitlines()
