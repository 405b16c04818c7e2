"""Routing documents in the verbs that take any file: `verify`, `inspect`, `export`."""

from __future__ import annotations

from typing import Any

from moeopt.cli.ask import ask
from moeopt.cli.room_files import Kind, room_document
from moeopt.cli.say import Say, count
from moeopt.cli.verb import DONE, GATE
from moeopt.cli.verdict import show_faults

INSTANCE, RESULT = "moeopt/routing-instance/", "moeopt/routing-result/"
INSTANCE_SAID, RESULT_SAID = "routing instance", "routing"
SAID = {INSTANCE_SAID: "an instance document", RESULT_SAID: "a routing"}
"""What its documents are, and as a sentence calls them."""
JUDGED = RESULT_SAID
"""The one that `verify` takes."""
KINDS = (Kind(INSTANCE, INSTANCE_SAID, allow_nan=True), Kind(RESULT, RESULT_SAID, allow_nan=True))


def document_of(path: str) -> tuple[str, Any] | None:
    """``(routing instance or routing, document)``; ``None`` for any other file."""
    return room_document(path, KINDS)


def verify(path: str, document: Any, loads: list[str], as_json: bool, say: Say) -> int:
    """List every fault of a written routing; exit 5 on any."""
    from moeopt.cli.verify import table_of
    from moeopt.routing.document import read_instance
    from moeopt.routing.result_document import document_faults, read_result

    parsed = read_result(document, path)
    given: tuple[Any, ...] = ()
    if loads and (own := document_of(loads[0])) is not None and own[0] == INSTANCE_SAID and len(loads) == 1:
        instance = read_instance(own[1], loads[0])
        given = (instance.loads, instance.layers, None if instance.sources is None else instance.sources.tolist())
    elif loads:
        table, layers, _ = table_of(loads, say)
        given = (table.sum(axis=0) if table.ndim == 3 else table, layers)
    faults = ask(document_faults, parsed, *given)
    checked = "structure, numbers and bounds" if loads else "structure"
    if as_json:
        say.document({"ok": not faults, "checked": checked, "faults": faults})
        return GATE if faults else DONE
    show_faults(path, faults, checked, say)
    return GATE if faults else DONE


def facts(path: str, what: str, document: Any) -> dict[str, Any]:
    """What `inspect` says."""
    if what == INSTANCE_SAID:
        from moeopt.routing import solve
        from moeopt.routing.document import read_instance

        instance = read_instance(document, path)
        found: dict[str, Any] = {
            "layers": instance.num_layers,
            "experts": instance.num_experts,
            "slots": int(instance.slot_expert.shape[1]),
            "gpus": instance.num_gpus,
            "nodes": len(set(instance.node)),
            "shared_experts": int(max(len(hosting.shared) for hosting in instance.hostings)),
            "whole": instance.whole,
        }
        result = solve(instance)
        if result.solution is not None:
            found |= {"imbalance_even": _even(result), "imbalance_best": result.solution["imbalance_mean"]}
        return found
    from moeopt.routing.result_document import read_result

    parsed = read_result(document, path)
    found = {"method": parsed.method, "status": parsed.status, "objective": parsed.objective, "gap": parsed.gap}
    if parsed.solution is not None:
        found |= {
            "layers": len(parsed.solution.layers),
            "imbalance_mean": parsed.solution.imbalance_mean,
            "gain_over_even": parsed.solution.gain_over_even,
        }
    return found


def _even(result: Any) -> float:
    """Mean imbalance of even parts."""
    layers = result.solution["layers"]
    return sum(one["even_max_load"] / one["ideal"] if one["ideal"] else 1.0 for one in layers) / len(layers)


def show(known: dict[str, Any], say: Say) -> None:
    """The same for people."""
    from moeopt.cli.tables import percent

    say.line(f"{known['file']}: {known['what']}")
    if known["what"] == INSTANCE_SAID:
        sizes = ", ".join(
            count(known[name], noun)
            for name, noun in (("layers", "layer"), ("experts", "expert"), ("slots", "slot"), ("gpus", "GPU"))
        )
        say.line(
            f"  {sizes}, {count(known['nodes'], 'node')}; at most {known['shared_experts']} experts on several GPUs"
        )
        if "imbalance_best" in known:
            best, even = known["imbalance_best"], known["imbalance_even"]
            say.line(f"  imbalance: even parts {even:.4f}, best split {best:.4f} (proved; mean of layers)")
        return
    gap = "" if known["gap"] is None else f", gap {percent(known['gap'])}"
    say.line(f"  {known['method']}: {known['status']}{gap}")
    if "layers" in known:
        won = percent(known["gain_over_even"])
        say.line(f"  {count(known['layers'], 'layer')}, imbalance mean {known['imbalance_mean']:.4f}, {won} below even")
