"""What inspect found, for people: the shape, notes and findings, the hottest experts, and what any plan could reach."""

from __future__ import annotations

from typing import Any

from moeopt.cli.inspect_cluster import SAID as TOPOLOGIES
from moeopt.cli.inspect_cluster import show as show_topology
from moeopt.cli.rooms import room_of
from moeopt.cli.say import Say, count, few, ranges
from moeopt.cli.shape_of_plan import words_of

FEW_LAYERS = 8

HOW = {"worst": "the worst", "mean": "the mean", "cvar": "the mean of the worst (CVaR)"}
"""How windows become one figure a layer."""


def show(facts: dict[str, Any], say: Say) -> None:
    """Everything about one file."""
    from moeopt.cli.tables import percent, tokens

    room = room_of(facts["what"])
    if room is not None:
        room.show(facts, say)
        return
    if facts["what"] in TOPOLOGIES:
        show_topology(facts, say)
        return
    lines = [f"{facts['file']}: {facts['what']}"]
    if facts["what"] == "plan":
        if "layers" in facts:
            lines.append(f"  shape      {count(facts['layers'], 'layer')}, {count(facts['experts'], 'expert')}, "
                         f"{', '.join([count(facts['slots'], 'slot'), *said_of(facts)])}")  # fmt: skip
            lines.append(f"  imbalance  mean {facts['imbalance_mean']:.4f}")
            if facts["moves"] is not None:
                now = facts["imbalance_now"]
                before = "which could not stay" if now is None else f"which had imbalance {now:.4f} over all layers"
                lines.append(f"  moves      {count(facts['moves'], 'slot')} new against the plan that ran, {before}")
            if facts["gpus_without_slots"]:
                lines.append(f"  GPUs       without slots: {ranges(facts['gpus_without_slots'])}")
        lines.append(f"  method     {facts['method']}, {facts['status']}, stopped by {facts['stop']}")
        lines.append(f"  gap        {percent(facts['gap'])}, worst layer {percent(facts['gap_worst_layer'])}")
        lines.append(f"  structure  {'ok' if not facts['faults'] else '; '.join(few(facts['faults'], say.verbose))}")
    elif facts["what"] == "map":
        lines[0] += f" of {facts['engine']} ({facts['form']})"
        gpus = "GPUs not said" if facts["gpus"] is None else count(facts["gpus"], "GPU")
        said = "" if facts["experts_said"] else " (the largest id and one)"
        lines.append(f"  shape      {count(facts['layers'], 'layer')}, {count(facts['experts'], 'expert')}{said}, "
                     f"{count(facts['slots'], 'slot')}, {gpus}; layer ids {ranges(facts['layer_ids'])}")  # fmt: skip
        empty = f"; {count(facts['empty_slots'], 'slot')} left empty" if facts["empty_slots"] else ""
        lost = f"; {facts['absent']} times an expert has no slot in a layer" if facts["absent"] else ""
        lines.append(f"  replicas   at most {facts['replicas_max']} of an expert{empty}{lost}")
    else:
        ids, cells = facts["layer_ids"], facts["layers"] * facts["experts"]
        steps = "" if facts["steps"] is None else f", {count(facts['steps'], 'step')}"
        lines.append(f"  shape      {count(facts['layers'], 'layer')}, {count(facts['experts'], 'expert')}{steps}; "
                     f"layer ids {ranges(ids)}")  # fmt: skip
        lines.append(
            f"  tokens     {tokens(facts['tokens'])} selection{'' if facts['tokens'] == 1 else 's'} in all, "
            f"{facts['zero_cells']:,} of {count(cells, 'cell')} {'is' if facts['zero_cells'] == 1 else 'are'} 0"
        )
    lines.extend(f"  note       {note}" for note in facts["notes"])
    for finding in facts.get("findings", ()):
        lines.append(f"  {finding['severity']:<10} {finding['name']}: {finding['text']}")
    say.show("\n".join(lines))
    if facts["what"] not in ("plan", "map"):
        say.show(_layer_table(facts, say.verbose))
    show_reach(facts, say)


def said_of(facts: dict[str, Any]) -> list[str]:
    """GPUs of a plan, and what else its shape says beyond slots, in words."""
    shape = {name: value for name, value in facts["shape"].items() if name not in ("gpus", "lost")}
    if isinstance(shape.get("slots"), int):
        del shape["slots"]
    return [count(facts["gpus"], "GPU"), *words_of(shape)]


def show_reach(facts: dict[str, Any], say: Say) -> None:
    """One line on the imbalance now and at best."""
    if "why_not" in facts:
        say.show("\n".join(["not windows of one plan:", *(f"  {line}" for line in facts["why_not"])]))
    if "windows" in facts:
        say.show(f"together, as {count(facts['windows'], 'window')} of which {HOW[facts['combine']]} counts")
    if "now_mean" in facts:
        now = f"unknown, as {facts['why_not_now']}" if facts["now_mean"] is None else f"{facts['now_mean']:.4f}"
        shape = f"{count(facts['gpus'], 'GPU')}, {count(facts['slots'], 'slot')}"
        least = f"no plan gets below {facts['best_possible_mean']:.4f} (means over layers)"
        say.show(f"  {shape}: imbalance {facts['now_is']} {now}; {least}")
    for conflict in facts.get("conflicts", ()):
        say.show(f"  infeasible: {conflict['message']}")


def _layer_table(facts: dict[str, Any], everything: bool) -> Any:
    from moeopt.cli.tables import table

    reach = {row["layer"]: row for row in facts.get("per_layer", ())}
    made = table("", "layer", "hottest experts (times the mean)", *(("now", "best possible") if reach else ()))
    made.columns[1].justify = "left"
    shown = facts["hottest"] if everything else facts["hottest"][:FEW_LAYERS]
    for row in shown:
        hot = ", ".join(f"{e} ({times:.2f})" for e, times in zip(row["experts"], row["times_mean"], strict=True))
        cells = []
        if reach:
            judged = reach.get(row["layer"])  # none for a layer without loads
            now = None if judged is None else judged["now"]
            best = "-" if judged is None else f"{judged['best_possible']:.4f}"
            cells = ["-" if now is None else f"{now:.4f}", best]
        made.add_row(str(row["layer"]), hot or "no loads", *cells)
    rest = len(facts["hottest"]) - len(shown)
    if rest:
        made.add_row(
            "...",
            f"{count(rest, 'more layer')}, -v shows {'it' if rest == 1 else 'them'}",
            *([""] * (2 if reach else 0)),
        )
    return made
