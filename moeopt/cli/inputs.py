"""Files of the command line: told apart by their content, and loads turned into instances by options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moeopt.cli.accepting import guarded
from moeopt.cli.expert_size import size_of_expert
from moeopt.cli.options import Shape
from moeopt.cli.piped import file_of
from moeopt.cli.running import gpus_of_nodes, read_current
from moeopt.cli.say import Say, ranges
from moeopt.cli.shape_of_plan import dropped_rules, inherited
from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from moeopt.engines.layers import LayerFacts
    from moeopt.placement import PlacementInstance
    from moeopt.workload import LoadTable

NEVER_AN_ENGINES = (".csv", ".tsv")
INSTANCE, PLAN = "moeopt/placement-instance/", "moeopt/placement-result/"


def name_of(path: str) -> str:
    """What an instance made of a file of loads is called.

    >>> name_of("a/loads.csv"), name_of("a/loads.npz:decode"), name_of("-")
    ('loads', 'loads:decode', 'stdin')
    """
    keyed = re.fullmatch(r"(.+?\.npz):(.*)", path, re.IGNORECASE | re.DOTALL)
    if keyed:
        return f"{Path(keyed[1]).stem}:{keyed[2]}"
    return "stdin" if path == "-" else Path(path).stem


def names_of(paths: Sequence[str]) -> list[str]:
    """Names of several inputs: those that would be alike are called as they were typed.

    >>> names_of(["a/loads.csv", "b/loads.csv", "c.csv"])
    ['a/loads.csv', 'b/loads.csv', 'c']
    """
    short = [name_of(path) for path in paths]
    return [name if short.count(name) == 1 else path for name, path in zip(short, paths, strict=True)]


def read_any(path: str, layers: str | None = None, experts: int | None = None) -> tuple[str, Any]:
    """What a file holds: ``("loads", LoadTable)``, ``("instance", PlacementInstance)`` or ``("plan", document)``.

    `layers` is the option: of a file whose layers have different numbers of experts, only these are read. `experts` are
    those of the LLM, for traces that do not say it.
    """
    with file_of(path) as file:
        return _read_any(path, file, layers, experts)


def _read_any(path: str, file: str, layers: str | None, experts: int | None) -> tuple[str, Any]:
    """The same, of what was typed as `path` and is read from `file`."""
    from dataclasses import replace

    from moeopt.cli import units
    from moeopt.workload import read_loads
    from moeopt.workload.readers import split_key

    piped = file != path
    recorded = _recording(file, experts)
    if recorded is not None:
        return "loads", replace(recorded, source=path) if piped else recorded
    wanted = None if layers is None else units.ids("--layers", layers, Violations())
    if not piped and not path.lower().endswith(".json"):
        return "loads", read_loads(path, layers=wanted)
    name, key = split_key(file) if piped else (file, None)
    data = read_bytes(name)
    if b'"schema"' in data and key is None:
        document = read_json(data, path, allow_nan=True)
        schema = document.get("schema") if isinstance(document, dict) else None
        if isinstance(schema, str) and schema.startswith(PLAN):
            return "plan", read_json(data, path)
        if isinstance(schema, str):
            from moeopt.placement.document import read_instance

            return "instance", read_instance(document, path, Path() if piped else Path(path).parent)
    return "loads", _piped_loads(data, key, wanted) if piped else read_loads(path, layers=wanted)


class Files(str):
    """A recording in several files, under the name that messages give it."""

    __slots__ = ("files",)
    files: tuple[str, ...]

    @staticmethod
    def of(files: Sequence[str]) -> Files:
        """All of them, in order.

        >>> Files.of(["a.pt", "b.pt"]), Files.of(["a.pt", "b.pt"]).files
        ('a.pt + 1 more', ('a.pt', 'b.pt'))
        """
        made = Files(f"{files[0]} + {len(files) - 1} more")
        made.files = tuple(files)
        return made


def sources(paths: Sequence[str], say: Say) -> list[str]:
    """Paths with the files of one recording, such as those of its ranks, drawn together; what was decided is said."""
    if len(paths) < 2 or all(path.lower().endswith(NEVER_AN_ENGINES) for path in paths):
        return list(paths)
    from moeopt.engines.recordings import recordings

    dealt = recordings(paths)
    for note in dealt.notes:
        say.note(note)
    return [group[0] if len(group) == 1 else Files.of(group) for group in dealt.groups]


def _recording(path: str, experts: int | None) -> LoadTable | None:
    """What an engine recorded, or ``None`` for anything else."""
    if path.lower().endswith(NEVER_AN_ENGINES):
        return None
    from dataclasses import replace

    from moeopt.engines import sglang, vllm
    from moeopt.engines.kinds import MAPS, what_is
    from moeopt.engines.reading import read_dump, refuse_map
    from moeopt.workload import read_loads
    from moeopt.workload.readers import split_key
    from moeopt.workload.traces import is_trace, read_trace

    files = path.files if isinstance(path, Files) else (path,)
    kind = what_is(files[0])
    if kind is None:
        return None
    if kind in MAPS:
        raise refuse_map(path, kind)
    if kind == (sglang.ENGINE, sglang.INIT_COUNTS):
        try:
            return read_loads(path)  # a table that says no more than any other
        except InstanceError:
            pass  # it has steps, or is broken: the engine's reader knows
    if kind == (vllm.ENGINE, vllm.ARRAYS):
        files = tuple(split_key(file)[0] for file in files)
    told = f"read as {kind[1]} of {kind[0]}"
    if all(is_trace(file) for file in files):
        table = read_trace(files if len(files) > 1 else files[0], experts=experts)
        return replace(table, notes=(told, *table.notes))
    dump = read_dump(files, experts=experts)
    steps = dump.table.steps if dump.steps is None else dump.steps
    notes = (f"read as {dump.form} of {dump.engine}", *dump.table.notes)
    return replace(dump.table, per_step=dump.per_step, top_k=dump.top_k, steps=steps, notes=notes)


def read_instance(path: str, shape: Shape, say: Say, name: str | None = None) -> PlacementInstance:
    """An instance document, or loads and the options that make an instance of them."""
    what, found = read_any(path, shape.layers, experts_of(shape))
    if what == "plan":
        rule = "is a plan, not loads or an instance"
        raise InstanceError([Violation("input", "", path, rule, "Use moeopt verify, or compare --plans")])
    if what == "loads":
        return from_loads(guarded(found, path, shape, say), path, shape, say, name)
    if shape.given():
        rule = "is an instance document, which has its own shape"
        fix = f"Leave out {', '.join(shape.given())}, or give the loads alone"
        raise InstanceError([Violation("input", "", path, rule, fix)])
    instance: PlacementInstance = found
    return instance


def from_loads(table: LoadTable, path: str, shape: Shape, say: Say, name: str | None = None) -> PlacementInstance:
    """Loads and options into an instance; every violation at once, under the option's or the field's name."""
    from moeopt.placement import PlacementInstance

    check = Violations(path)
    refuse_experts(table, shape, check)
    shape = size_of_expert(shape, say, needed=shape.memory_bytes is not None)
    for note in table.notes:
        say.note(f"{path}: {note}")
    wanted = _busy(table, path, say) if shape.layers is None else layer_ids(shape.layers, table, check)
    loads, layers = table.loads if table.windows is None else table.windows, list(table.layers)
    if wanted is not None and not check.found:
        rows = [layers.index(layer) for layer in wanted]
        loads, layers = loads[..., rows, :], wanted
    running = None
    if shape.current is not None and not check.found:
        with check.within():
            known = {"facts": layer_facts(shape), "idle": _idle(loads, layers), "experts": loads.shape[-1]}
            running = read_current(shape.current, layers, **known)
            shape, taken = inherited(shape, running.shape, "the running plan")
    arguments = shape.instance_fields(check)
    if running is not None:
        for note in (*running.notes, *taken):
            say.note(note)
        for note in dropped_rules(running.rules, arguments):
            say.keep(note)
        rows = [layers.index(layer) for layer in running.layers]
        loads, layers = loads[..., rows, :], list(running.layers)
        arguments |= running.fields
    if shape.lost_nodes is not None:
        dead = gpus_of_nodes(shape.lost_nodes, arguments.get("nodes", 1), arguments.get("gpus"), check)
        arguments["lost"] = [*arguments.get("lost", ()), *dead]
    check.raise_if_any()
    floor = shape.computed_floor()
    if floor is not None:
        say.note(f"floor: {floor}")
    if shape.facts is not None:
        arguments.setdefault("llm", shape.facts.brief())
    steps = shape.steps if shape.steps is not None else table.steps
    arguments |= {"layers": layers, "names": table.names, "steps": 1 if steps is None else steps}
    arguments.setdefault("name", name or name_of(path))
    try:
        return PlacementInstance(loads, **arguments)
    except InstanceError as error:
        raise InstanceError(error.violations, path) from error


def _busy(table: LoadTable, path: str, say: Say) -> list[int] | None:
    """Layers with loads, where some have none: dense layers would count as balanced, and moves of theirs as moves."""
    rows = [bool(row.any()) for row in table.loads]
    if all(rows) or not any(rows):
        return None
    idle = [layer for layer, busy in zip(table.layers, rows, strict=True) if not busy]
    what = f"{'layer' if len(idle) == 1 else 'layers'} {ranges(idle)} {'has' if len(idle) == 1 else 'have'}"
    say.note(f"{path}: {what} no load and {'is' if len(idle) == 1 else 'are'} left out; --layers takes them in")
    return [layer for layer, busy in zip(table.layers, rows, strict=True) if busy]


def experts_of(shape: Shape) -> int | None:
    """Experts of a layer, where an option or the LLM says it."""
    known = None if shape.facts is None else shape.facts.experts
    if shape.experts is None or known is None or shape.experts == known:
        return shape.experts or known
    rule = f"contradicts {shape.hf_config}, which says {known}"
    raise InstanceError([Violation("--experts", "", str(shape.experts), rule, "Leave one of them out")])


def refuse_experts(table: LoadTable, shape: Shape, check: Violations) -> None:
    """Note where a file that says how many experts there are has others than ``--experts``."""
    found = table.loads.shape[-1]
    if shape.experts is not None and shape.experts != found:
        rule = f"contradicts the loads, which have {found}"
        check.add("--experts", shape.experts, rule=rule, fix="Leave it out: it is for traces that do not say it")


def layer_facts(shape: Shape) -> LayerFacts | None:
    """What is known of the layers of the LLM."""
    from moeopt.engines.layers import LayerFacts

    return None if shape.facts is None else LayerFacts.of(shape.facts)


def _idle(loads: NDArray[Any], layers: Sequence[int]) -> list[int]:
    """Layers without any load."""
    return [layer for row, layer in enumerate(layers) if not loads[..., row, :].any()]


def layer_ids(text: str, table: LoadTable, check: Violations) -> list[int]:
    """Layer ids of an option, each of them in the table."""
    from moeopt.cli import units

    wanted = units.ids("--layers", text, check)
    for layer in wanted:
        if layer not in table.layers:
            known = f"{table.layers[0]} to {table.layers[-1]}" if len(table.layers) > 1 else str(table.layers[0])
            check.add("--layers", layer, rule="is not a layer of this file", fix=f"It has {known}")
    return wanted


def _piped_loads(data: bytes, key: str | None, layers: Sequence[int] | None = None) -> LoadTable:
    """Loads that came by standard input, which can be read only once."""
    from moeopt.workload.readers import parse_loads

    check = Violations("-")
    if not data.strip():
        check.add("input", "''", rule="standard input is empty", fix="Pipe loads into it")
        check.raise_if_any()
    return parse_loads(data, key=key, layers=layers)
