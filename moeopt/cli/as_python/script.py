"""The script of a command: how the instance was made is watched, the one call is told, the answer is written."""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from moeopt.cli.as_python.origins import Origins
from moeopt.cli.as_python.render import Renderer, quoted, same, wrapped
from moeopt.cli.ask import SHOWING, After, Told
from moeopt.limits import Limits
from moeopt.registry import PROBLEMS, Problem

UNSAID = ("on_progress", "on_cell", "on_result")
"""Arguments that change no answer."""


def shown(work: Callable[[], int], given: Mapping[str, Any], command: tuple[str, ...]) -> str | int:
    """The script of a verb; its exit code where it ends before its call."""
    token = SHOWING.set(True)
    try:
        with _watched() as made:
            return work()
    except Told as told:
        return script(told, made, given, command)
    finally:
        SHOWING.reset(token)


def script(told: Told, made: Mapping[int, Any], given: Mapping[str, Any], command: tuple[str, ...]) -> str:
    """Imports, what is read, the instance, the call, and what becomes of the answer."""
    slices, seed = told.after.sliced
    origins = Origins(_words(given), given.get("slices", slices), given.get("seed", seed) or 0)
    renderer = Renderer(origins)
    function, args, kwargs = told.call.func, list(told.call.args), dict(told.call.keywords)
    lines: list[str] = []
    called = []
    for value in args:
        whole = origins(renderer, value) if id(value) in made else renderer.value(value)
        if id(value) in made and not lines:
            lines.append(f"instance = {whole or _made(renderer, *made[id(value)])}")
            whole = "instance"
        called.append(whole or _made(renderer, *made[id(value)]))
    usual = inspect.signature(function).parameters
    kept = {
        name: replace(value, stop=None) if isinstance(value, Limits) else value
        for name, value in kwargs.items()
        if name not in UNSAID
    }
    kept = {name: value for name, value in kept.items() if value != Limits() and not _usual(value, usual[name].default)}
    named = _function(renderer, function)
    parts = [*called, *(f"{name}={renderer.value(value)}" for name, value in kept.items())]
    answer = ANSWERS.get(getattr(function, "__name__", ""), "result")
    lines.append(f"{answer} = {wrapped(f'{named}(', parts, ')')}")
    lines += _after(renderer, told.after)
    lines += _written(renderer, answer, given, command)
    read = [f"{name} = {text}" for name, text in origins.used.items() if f"instance = {name}" != lines[0]]
    if lines[0] == "instance = instance":
        lines[0] = f"instance = {origins.used['instance']}"
        read = [line for line in read if not line.startswith("instance = ")]
    body = [*read, *lines]
    if any("make_executor(" in line for line in body):  # processes import the script once more
        body = ['if __name__ == "__main__":', *("    " + line.replace("\n", "\n    ") for line in body)]
    return "\n".join([*_imports(renderer.imports), "", *body])


ANSWERS = {
    "compare": "comparison",
    "replay": "played",
    "slots_curve": "curve",
    "write_map": "written",
    "run_grid": "ran",
    "generate": "table",
    "generate_history": "table",
    "faults": "faults",
    "check_plan": "faults",
    "document_faults": "faults",
    "written_faults": "faults, unchecked",
    "calibration_faults": "faults, unchecked",
    "check_map": "judged",
    "map_cost": "cost",
}
"""What the answer of a function is called."""


SHOWN = {
    "faults": '*faults, sep="\\n"',
    "faults, unchecked": '*faults, sep="\\n"',
    "judged": '*judged.faults, *judged.notes, sep="\\n"',
    "cost": "cost.imbalance_mean, cost.best_possible_mean",
}
"""What is printed of an answer that no file is made of."""
LOST_IMPORTS = "from moeopt.placement.load_plan import as_plan, instance_of"


@contextmanager
def _watched() -> Iterator[dict[int, Any]]:
    """Note the arguments of every instance of a problem that is made."""
    made: dict[int, Any] = {}
    kinds = [import_module(f"moeopt.{name}").PROBLEM.instance_type for name in PROBLEMS]
    before = [kind.__init__ for kind in kinds]

    def noting(kind: type, init: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init)
        def run(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            made[id(self)] = (self, kind, args, kwargs)  # with itself: an id is of what lives

        return run

    for kind, init in zip(kinds, before, strict=True):
        kind.__init__ = noting(kind, init)
    try:
        yield made
    finally:
        for kind, init in zip(kinds, before, strict=True):
            kind.__init__ = init


def _made(renderer: Renderer, instance: Any, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The shortest call of the class that makes the same."""
    usual = inspect.signature(kind).parameters
    kept = {name: value for name, value in kwargs.items() if not _usual(value, usual[name].default)}
    for name in sorted(kept, key=lambda name: name in ("gpus", "slots")):  # the rest may follow from these
        if name == "name":
            continue
        with suppress(Exception):  # an argument that is needed
            fewer = {key: value for key, value in kept.items() if key != name}
            if _alike(kind(*args, **fewer), instance):
                kept = fewer
    return renderer.call(kind, args, kept)


def _alike(one: Any, other: Any) -> bool:
    """Whether two instances are the same problem, and say the same of it."""
    if getattr(one, "notes", ()) != getattr(other, "notes", ()) or one.name != other.name:
        return False
    return bool(one.sha256 == other.sha256 if hasattr(one, "sha256") else one.to_dict() == other.to_dict())


def _usual(value: Any, default: Any) -> bool:
    return same(value, default) or (default in ((), None) and isinstance(value, tuple | list) and not value)


def _function(renderer: Renderer, function: Any) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Problem):
        renderer.imports.add(f"from moeopt import {owner.name}")
        return f"{owner.name}.{function.__name__}"
    return renderer.name(function)


def _after(renderer: Renderer, after: After) -> list[str]:
    """What the command adds to a result."""
    lines = []
    if after.decide:
        renderer.imports.add("from dataclasses import replace")
        said = {name: value for name, value in after.decide.items() if value is not None}
        lines.append(f"decision = {renderer.call('placement.decide', (), said)}".replace("(", "(result, ", 1))
        lines.append('result = replace(result, solution={**result.solution, "decision": decision.to_dict()})')
    if after.before or after.behind:
        renderer.imports.add("from dataclasses import replace")
        notes = [*map(quoted, after.before), "*result.notes", *map(quoted, after.behind)]
        lines.append(f"result = replace(result, notes={wrapped('(', notes, ')')})")
    if after.passes is not None:
        steps, name = after.passes
        renderer.imports.add("from moeopt.placement.per_step import measured")
        lines.append(f"result = measured(instance, result, {renderer.value(steps)}, {quoted(name)})")
    if after.lost:
        renderer.imports.update(("from moeopt import placement", LOST_IMPORTS))
        lines += ["if not faults:", "    shape = instance_of(document)", "    held = as_plan(document, shape.layers)"]
        lines += ['    lost = {by: placement.lost_if(shape, held, by=by) for by in ("gpu", "node")}', "    print(lost)"]
    return lines


def _written(renderer: Renderer, answer: str, given: Mapping[str, Any], command: tuple[str, ...]) -> list[str]:
    """Where the answer goes."""
    if answer in SHOWN:
        return [f"print({SHOWN[answer]})"]
    if answer == "written":
        return ['print(*written.options, sep="\\n")']
    if answer == "ran":
        from moeopt.bench.tables import axes_of

        renderer.imports.update(("from moeopt.bench import pivot, read_cells", "from pathlib import Path"))
        axes = axes_of(str(given["by"]))
        cells = f"read_cells(Path({quoted(given['folder'])}), grid.cells())"
        lines = [f"table = pivot({cells}, {renderer.value(axes)}, {quoted(given['metric'])})"]
        if given.get("json"):
            renderer.imports.add("from moeopt.documents import to_json")
            lines.append("print(to_json(table.to_dict()))")
        else:
            lines.append("print(table.as_text())")
        return lines if given.get("table") is None else [*lines, *_pivoted(renderer, given, command)]
    if answer == "table":
        return [_loads(renderer, str(given["output"]), given)]
    files = [one for one in str(given.get("output") or "-").split(",") if one != "-"]
    force = ", force=True" if given.get("force") else ""
    lines = []
    for file in files:
        if answer == "result" and file.lower().endswith(".json"):
            renderer.imports.add("from moeopt.documents import write_file")
            lines.append(f'write_file({quoted(file)}, result.to_json() + "\\n"{force})')
        elif answer == "result":
            lines.append(_drawn(renderer, file, given, force))
        elif answer in WRITERS:
            module, call = WRITERS[answer]
            renderer.imports.update((module, "from moeopt.report import Header"))
            header = f"Header({quoted(shlex.join(_unshown(command)))})"
            if "Block(" in call:
                renderer.imports.add("from moeopt.report import Block")
            lines.append(f"{call.format(file=quoted(file), header=header)}{force})")
    if not lines and answer == "curve":
        renderer.imports.add("from moeopt.documents import to_json")
        return ["print(to_json(curve.to_dict()))"]
    return lines or [f"print({answer})" if answer == "comparison" else f"print({answer}.to_json())"]


def _pivoted(renderer: Renderer, given: Mapping[str, Any], command: tuple[str, ...]) -> list[str]:
    """The table of a grid as files."""
    from moeopt.cli.target import targets
    from moeopt.report.grid_file import FORMATS

    renderer.imports.update(("from moeopt.report import Header", "from moeopt.report.grid_file import write_pivot"))
    header = f"Header({quoted(shlex.join(_unshown(command)))}, seed=None)"
    rest = f"name={quoted(Path(given['grid']).stem)}" + (", force=True" if given.get("force") else "")
    files = targets(given["table"], tuple(FORMATS))
    return [f"write_pivot({quoted(file)}, table, {header}, {rest})" for file in files]


def _loads(renderer: Renderer, file: str, given: Mapping[str, Any]) -> str:
    """Loads that were drawn as a file, or as CSV."""
    if file == "-":
        return 'print(*(",".join(map(str, row)) for row in table.loads.tolist()), sep="\\n")'
    renderer.imports.add("from moeopt.workload import write_loads")
    return f"write_loads({quoted(file)}, table{', force=True' if given.get('force') else ''})"


def _drawn(renderer: Renderer, file: str, given: Mapping[str, Any], force: str) -> str:
    """A picture of a result, drawn by the room that the instance is of."""
    room = next(room for room in PICTURES if any(line.endswith(f" {room}") for line in renderer.imports))
    module, name, arguments = PICTURES[room]
    if name is None:
        renderer.imports.add(f"from {module} import draw")
        return f"draw(instance, result, {quoted(file)})"
    called = f"{name}_{Path(file).suffix.lower().removeprefix('.')}"
    renderer.imports.update((f"from {module} import {called}", "from moeopt.documents import write_file"))
    shown = arguments.format(unit=quoted(str(given.get("unit"))))
    return f"write_file({quoted(file)}, {called}({shown}){force})"


PICTURES: dict[str, tuple[str, str | None, str]] = {
    "collocation": ("moeopt.report.plots.collocation", None, ""),
    "microbatch": ("moeopt.report.plots.timeline", "timeline", "result.solution, {unit}"),
    "mesh": ("moeopt.report.plots.mesh", "pareto", "result.solution"),
}
"""What draws the result of a room: a module, the beginning of its functions' names, their arguments."""
WRITERS = {
    "comparison": (
        "from moeopt.report import write_report",
        "write_report({file}, [Block(instance, comparison)], {header}",
    ),
    "played": ("from moeopt.report.replay_file import write_replay", "write_replay({file}, played, {header}"),
    "curve": ("from moeopt.report.curve import write_curve", "write_curve({file}, curve, {header}"),
}
"""How an answer becomes a file."""


def _unshown(command: tuple[str, ...]) -> list[str]:
    return ["moeopt", *(word for word in command if word != "--show-python")]


def _words(given: Mapping[str, Any]) -> Iterator[str]:
    """Everything on the command line that may be a file or a name, but what is written."""
    for name, value in given.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, str) and name != "output":
                parts = [one, *one.split(",")] if "," in one else [one]
                for part in parts:
                    if re.search(r"[*?\[]", part):
                        yield from map(str, sorted(Path().glob(part)) if not Path(part).is_absolute() else [])
                    yield part


def _imports(lines: set[str]) -> list[str]:
    """Sorted, names of one module together."""
    joined: dict[str, set[str]] = {}
    plain = sorted(line for line in lines if line.startswith("import "))
    for line in lines:
        if line.startswith("from "):
            module, _, names = line.removeprefix("from ").partition(" import ")
            joined.setdefault(module, set()).update(names.split(", "))
    return [*plain, *(f"from {module} import {', '.join(sorted(joined[module]))}" for module in sorted(joined))]
