"""Whatever a room offers is documented: what it is, what each argument is, what is refused, and a run example."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import moeopt

ROOT = Path(moeopt.__file__).parent
WITHOUT_PUBLIC = ("moeopt", "moeopt.backends", "moeopt.cost", "moeopt.engines", "moeopt.executors", "moeopt.kernels",
                  "moeopt.llm", "moeopt.report")  # fmt: skip
"""Packages that offer their names themselves."""
ROOMS = sorted(
    {
        *WITHOUT_PUBLIC,
        *(".".join(("moeopt", *path.parent.relative_to(ROOT).parts)) for path in ROOT.rglob("public.py")),
    }
)
ALIKE = ("self", "limits", "seed", "on_progress", "force")
"""Arguments that are the same in every room, said in `moeopt.Limits` and by the names themselves."""
OWN = re.compile(
    r"Instance|Facts|Plan|Header|Table|Document|Machine|Numerics|Path|Link|Block|GpuType|Split|Cluster|Graph|Cells|Config"
    r"|Shape|Work\b|Callable|Cell\b"
)
"""Types that say what an argument of theirs is."""


def offered(*kinds: str) -> dict[str, Any]:
    """The public functions or classes, each once, by the name of its first room."""
    found: dict[Any, tuple[str, Any]] = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            kind = "class" if inspect.isclass(thing) else "function" if inspect.isroutine(thing) else "value"
            if kind in kinds:
                found.setdefault(getattr(thing, "__func__", thing), (f"{room}.{name}", thing))
    return dict(found.values())


def test_public_names_say_what_they_are() -> None:
    silent = []
    for name, thing in offered("function", "class").items():
        first = inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].rstrip()
        if not first.endswith((".", ":", "?")) or first.startswith(f"{thing.__name__}("):  # what dataclasses get
            silent.append(name)
    assert silent == []


def test_public_functions_name_their_arguments_and_have_an_example_that_runs() -> None:
    short = []
    for name, function in offered("function").items():
        text = inspect.cleandoc(function.__doc__ or "")
        if ">>>" not in text or "+SKIP" in text:
            short.append(f"{name}: no example that runs")
        for argument in inspect.signature(function).parameters.values():
            said = argument.name in ALIKE or OWN.search(str(argument.annotation))
            if not said and not re.search(rf"\b{re.escape(argument.name)}\b", text):
                short.append(f"{name}: {argument.name} is not said")
    assert short == []


def test_public_functions_say_what_they_refuse() -> None:
    silent = []
    for name, function in offered("function").items():
        source = inspect.getsource(inspect.unwrap(getattr(function, "__func__", function)))
        refuses = re.search(r"raise_if_any|raise InstanceError|raise PlanError", source)
        if refuses and not re.search(r"[Rr]efuse|[Rr]aise|Error|errors", function.__doc__ or ""):
            silent.append(name)
    assert silent == []
