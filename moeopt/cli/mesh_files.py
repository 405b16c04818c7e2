"""Mesh documents in the verbs that take any file: `verify`, `inspect`, `export`, `compare`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.ask import ask
from moeopt.cli.room_files import Kind, room_document, said_by
from moeopt.cli.say import Say, count, few
from moeopt.cli.verdict import told
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.mesh import MeshInstance

INSTANCE, RESULT = "moeopt/mesh-instance/", "moeopt/mesh-result/"
INSTANCE_SAID, RESULT_SAID = "mesh instance", "mesh plan"
SAID = {INSTANCE_SAID: "an instance document", RESULT_SAID: "a plan"}
"""What its documents are, and as a sentence calls them."""
JUDGED = RESULT_SAID
"""The one that `verify` takes."""
KINDS = (Kind(INSTANCE, INSTANCE_SAID, allow_nan=True), Kind(RESULT, RESULT_SAID))


def document_of(path: str) -> tuple[str, Any] | None:
    """``(mesh instance or mesh plan, document)``; ``None`` for any other file."""
    return room_document(path, KINDS)


def instance_of(path: str, options: list[str]) -> MeshInstance | None:
    """The instance that a file is, or has within, with none of the options given; ``None`` for files of other rooms."""
    found = document_of(path)
    if found is None:
        return None
    what, document = found
    if options:
        rule = f"is a {what}, which says everything itself"
        raise InstanceError([Violation("input", "", path, rule, f"Leave out {', '.join(options)}")])
    if what == RESULT_SAID:
        from moeopt.mesh.written_plan import instance_in

        return instance_in(document, path)
    from moeopt.mesh.document import read_instance

    return read_instance(document, path)


def verify(path: str, document: Any, given: list[str], as_json: bool, say: Say) -> int:
    """List every fault of a written plan; exit 5 on any."""
    if len(given) > 1:
        rule = "must be the one instance that the plan was made for"
        raise InstanceError([Violation("instance", "", ", ".join(given), rule, "Give one")])
    from moeopt.mesh.written_plan import written_faults

    asked = None
    if given:
        own = document_of(given[0])
        if own is None or own[0] != INSTANCE_SAID:
            rule = "is no mesh instance" if own is None else "is a plan, not the instance it was made for"
            raise InstanceError([Violation("input", "", given[0], rule, "Give the plan first, then the instance")])
        asked = instance_of(given[0], [])
    faults, aside = ask(written_faults, document, path, asked)
    return told(path, faults, aside, as_json, say)


def facts(path: str, what: str, document: Any) -> dict[str, Any]:
    """What `inspect` says."""
    if what == INSTANCE_SAID:
        from moeopt.mesh.document import read_instance

        return _instance_facts(read_instance(document, path))
    from moeopt.mesh.written_plan import written_faults

    faults, _ = written_faults(document, path)
    found: dict[str, Any] = {"name": document["instance"].get("name"), **said_by(document)}
    solution = document.get("solution")
    if isinstance(solution, Mapping) and not faults:
        keys = ("demands", "gpus", "idle_gpus", "total_gpus", "price", "rate_per_s")
        found |= {key: solution[key] for key in keys}
        kept = ("label", "llm", "replicas", "gpus")
        found["pools"] = [{key: pool[key] for key in kept} for pool in solution["pools"]]
    return {**found, "faults": faults}


def _instance_facts(instance: MeshInstance) -> dict[str, Any]:
    """Demands, GPUs, how many configurations there are, and where none exists, why."""
    from moeopt.mesh import PROBLEM
    from moeopt.mesh.market import configs_of, refusals

    configs = configs_of(instance)
    usable = [config for place, config in enumerate(configs) if not refusals(instance, place)]
    demands = [
        {
            "llm": one.llm.name,
            **{key: getattr(one.workload, key) for key in ("input_tokens", "output_tokens", "cached", "rate_per_s")},
            "ttft_s": one.slo.ttft_s,
            "tpot_s": one.slo.tpot_s,
        }
        for one in instance.demands
    ]
    families = {name: sum(config.family == name for config in usable) for name in instance.families}
    conflicts = PROBLEM.conflicts(instance)
    return {
        "name": instance.name,
        "sha256": instance.sha256,
        "demands": demands,
        "gpus": [{"name": gpu.name, "stock": gpu.stock, "price": gpu.price} for gpu in instance.gpus],
        "objective": instance.objective,
        "engine": instance.engine,
        "roles": dict(instance.sides),
        "imbalance": instance.imbalance.source,
        "given": instance.configs is not None,
        "configs": len(configs),
        "usable": families,
        "conflicts": [dict(one) for one in conflicts],
    }


def show(known: Mapping[str, Any], say: Say) -> None:
    """The same for people."""
    lines = [f"{known['file']}: {known['what']}" + (f" {known['name']}" if known.get("name") else "")]
    lines += _instance_lines(known) if known["what"] == INSTANCE_SAID else _plan_lines(known, say)
    lines.extend(f"  infeasible {conflict['message']}" for conflict in known.get("conflicts") or ())
    lines.extend(f"  note       {note}" for note in known.get("notes") or ())
    say.show("\n".join(lines))


def _instance_lines(known: Mapping[str, Any]) -> list[str]:
    from moeopt.report.mesh_words import per_second as rate
    from moeopt.report.words import seconds

    lines = []
    for one in known["demands"]:
        text = f"{one['llm']}: {one['input_tokens']:,} tokens in, {one['output_tokens']:,} out"
        text += f", {one['cached']:g} of prompts cached" if one["cached"] else ""
        text += "" if one["rate_per_s"] is None else f"; {rate(one['rate_per_s'])} requests/s"
        levels = [(name, one[f"{name.lower()}_s"]) for name in ("TTFT", "TPOT")]
        text += "".join(f"; {name} {seconds(level)}" for name, level in levels if level is not None)
        lines.append(f"  demand     {text}")
    for gpu in known["gpus"]:
        stock = "any number" if gpu["stock"] is None else f"{gpu['stock']:,}"
        price = "" if gpu["price"] is None else f", price {gpu['price']:g}"
        lines.append(f"  GPUs       {stock} of {gpu['name']}{price}")
    goal = {"goodput": "most requests a second", "time": "least time per output token", "price": "lowest price"}
    lines.append(f"  objective  {goal.get(known['objective'], 'fewest GPUs')}")
    if known["roles"]:
        lines.append(f"  roles      {', '.join(f'{part} on {gpu}' for part, gpu in known['roles'].items())}")
    usable = ", ".join(f"{many:,} {name}" for name, many in known["usable"].items())
    source = "given" if known["given"] else "enumerated"
    lines.append(f"  choice     {count(known['configs'], 'configuration')} {source}; usable: {usable}")
    lines.append(f"  imbalance  {known['imbalance']}")
    return lines


def _plan_lines(known: Mapping[str, Any], say: Say) -> list[str]:
    from moeopt.cli.tables import percent
    from moeopt.report.mesh_words import per_second as rate

    lines = []
    for pool in known.get("pools", ()):
        gpus = ", ".join(f"{many:,} {name}" for name, many in pool["gpus"].items())
        lines.append(f"  pool       {pool['replicas']:,} x {pool['label']} of {pool['llm']} on {gpus}")
    if "pools" in known:
        idle = sum(known["idle_gpus"].values())
        price = "" if known["price"] is None else f", price {known['price']:,.6g}"
        lines.append(f"  serves     {rate(known['rate_per_s'])} requests/s on {known['total_gpus']:,} GPUs, "
                     f"{idle:,} idle{price}")  # fmt: skip
    lines.append(f"  method     {known['method']}, {known['status']}, stopped by {known['stop']}")
    lines.append(f"  gap        {percent(known['gap'])}")
    lines.append(f"  structure  {'ok' if not known['faults'] else '; '.join(few(known['faults'], say.verbose))}")
    return lines
