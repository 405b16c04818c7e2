"""Verify an engine's own map: its ids, cover, doubles and layers, and with loads, what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.ask import ask
from moeopt.cli.llm_options import Llm
from moeopt.cli.say import Say, count, few
from moeopt.cli.verb import DONE, GATE
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.engines.base import ExpertMap
    from moeopt.engines.map_check import MapCheck, MapCost

MAPS = "An engine's map"
SHORT = 7
"""How many faults of a kind are shown without -v."""


@dataclass(frozen=True)
class MapOptions:
    """What a map does not say of itself."""

    split: Annotated[
        str | None,
        typer.Option("--split", help="How the engine shares tokens, as in place; even.", rich_help_panel=MAPS),
    ] = None
    allow_doubles: Annotated[
        bool,
        typer.Option("--allow-doubles", help="Two replicas of an expert on one GPU are fine.", rich_help_panel=MAPS),
    ] = False

    def given(self) -> list[str]:
        """The options that were given."""
        return [*(["--split"] if self.split else []), *(["--allow-doubles"] if self.allow_doubles else [])]


def map_of(path: str) -> tuple[ExpertMap | None, list[str]] | None:
    """The map in a file, or the faults that keep it from being one; ``None`` where the file is no map.

    A file that says it is a map, and whose rows are ragged or whose ids are no numbers, has faults; one that cannot be
    parsed is bad input.
    """
    from moeopt.engines import eplb_tensors
    from moeopt.engines.kinds import MAPS as KINDS
    from moeopt.engines.kinds import what_is
    from moeopt.engines.reading import read_map

    kind = what_is(path)
    if kind is None and not _is_table(path):
        return None
    if kind is not None and kind not in KINDS and kind != (eplb_tensors.ENGINE, eplb_tensors.BARE):
        rule = f"is a recording of {kind[0]} ({kind[1]}), not a map"
        fix = "Plan on it with moeopt place, or look at it with moeopt inspect"
        raise InstanceError([Violation("input", "", path, rule, fix)])
    try:
        return read_map(path), []
    except InstanceError as error:
        if any(
            violation.field in ("json", "yaml", "input", "file", "key", "npz", "npy") for violation in error.violations
        ):
            raise
        return None, [str(violation) for violation in error.violations]


def _is_table(path: str) -> bool:
    """Whether a file begins as a bare table of experts in slots does: an array of JSON, a `.npy` or an `.npz`."""
    from moeopt.workload.readers import split_key

    path = split_key(path)[0]
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        head = file.read(256)
    return head.startswith((b"\x93NUMPY", b"PK")) or head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def verify_map(
    path: str,
    found: ExpertMap | None,
    broken: list[str],
    wanted: dict[str, int | None],
    which: Llm,
    options: MapOptions,
    loads: list[str],
    as_json: bool,
    say: Say,
    drop: list[str] | None = None,
) -> int:
    """List the faults of a map, and without any, say what it costs under the loads; exit 5 on any fault."""
    from moeopt.engines.map_check import check_map
    from moeopt.engines.map_faults import MAX_FAULTS
    from moeopt.engines.rules import RULES

    if wanted["nodes"] is not None:
        rule = "is for plans: a map does not say on which nodes its GPUs are"
        raise InstanceError([Violation("--nodes", "", str(wanted["nodes"]), rule, "Leave it out")])
    facts = which.layer_facts(experts=wanted["experts"])
    judged = None
    faults = broken
    notes: list[str] = []
    if found is not None:
        judge = check_map if loads else partial(ask, check_map)  # with loads, these are what is asked
        judged = judge(
            found,
            facts=facts,
            experts=wanted["experts"],
            slots=wanted["slots"],
            gpus=wanted["gpus"],
            doubles=options.allow_doubles,
            most=MAX_FAULTS if say.verbose or as_json else SHORT,
        )
        faults, notes = list(judged.faults), [*found.notes, *judged.notes]
    cost = None
    if loads and judged is not None and found is not None and not faults:
        cost, more = _cost(found, judged, loads, options, facts, say, drop)
        faults += more
        notes += [] if cost is None else cost.notes
    elif loads and faults:
        notes.append("the loads were not looked at: the map has faults")
    title = "moeopt" if found is None else RULES[found.engine].title if found.engine in RULES else found.engine
    if as_json:
        say.document(_document(found, judged, faults, notes, cost))
        return GATE if faults else DONE
    for fault in few(broken, say.verbose) or faults:  # those of a map that can be read are few of a kind already
        say.line(fault)
    for note in notes:
        say.note(f"{path}: {note}")
    if not faults and not say.quiet:
        assert found is not None and judged is not None
        on = "" if judged.slots is None else f" on {count(len(judged.slots), 'GPU')}"
        shape = f"{count(len(found.layers), 'layer')}, {count(found.slot_expert.shape[1], 'slot')}{on}"
        say.line(f"{path}: ok (map of {title}; {shape}, {count(judged.num_experts, 'expert')})")
        if cost is not None:
            worst = max(range(len(cost.layers)), key=cost.imbalance.__getitem__)
            say.line(
                f"imbalance mean {cost.imbalance_mean:.4f}, worst {cost.imbalance[worst]:.4f} (layer "
                f"{cost.layers[worst]}); no plan of this shape gets below {cost.best_possible_mean:.4f} (mean)"
            )
    return GATE if faults else DONE


def _cost(
    found: ExpertMap,
    judged: MapCheck,
    loads: list[str],
    options: MapOptions,
    facts: Any,
    say: Say,
    drop: list[str] | None,
) -> tuple[MapCost | None, list[str]]:
    """The map under loads, or why it does not fit them."""
    from moeopt.cli.verify import table_of
    from moeopt.engines.map_check import map_cost

    table, layers, _ = table_of(loads, say, drop, judged.num_experts)
    if judged.slots is None:
        rule = "is needed for loads: the map does not say how many GPUs there are"
        raise InstanceError([Violation("--gpus", "", "missing", rule, "Give their number")])
    if table.shape[-1] != judged.num_experts:
        return None, [f"experts: the map has {judged.num_experts}, the loads {table.shape[-1]}"]
    split = options.split or "even"
    how: dict[str, Any] = {"split": split, "doubles": options.allow_doubles, "facts": facts}
    return ask(map_cost, found, table, layers, judged.slots, **how), []


def _document(
    found: ExpertMap | None, judged: MapCheck | None, faults: list[str], notes: list[str], cost: MapCost | None
) -> dict[str, Any]:
    document: dict[str, Any] = {"ok": not faults, "checked": "map", "faults": faults, "notes": notes}
    if found is not None and judged is not None:
        document |= {
            "engine": found.engine,
            "layers": list(found.layers),
            "experts": judged.num_experts,
            "slots": int(found.slot_expert.shape[1]),
            "gpus": None if judged.slots is None else len(judged.slots),
        }
    if cost is not None:
        document |= {
            "imbalance_mean": cost.imbalance_mean,
            "imbalance_total": cost.imbalance_total,
            "best_possible_mean": cost.best_possible_mean,
            "per_layer": [
                {"layer": layer, "imbalance": value, "best_possible": least}
                for layer, value, least in zip(cost.layers, cost.imbalance, cost.best_possible, strict=True)
            ],
        }
    return document
