"""How ``moeopt microbatch`` ends: done, infeasible with the best possible, or no plan; and what the TBT has besides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.microbatch_words import singular, spell
from moeopt.cli.say import complain
from moeopt.cli.verb import DONE, INFEASIBLE, NO_PLAN

if TYPE_CHECKING:
    from moeopt.cli.microbatch_instance import Asked
    from moeopt.cli.modelled_rest import Dense
    from moeopt.result import Result


def beside(dense: Dense, solution: Mapping[str, Any], unit: str) -> str:
    """The note on dense layers, which are in no number of the document."""
    more = dense.seconds(solution["batch"])
    return (
        f"{dense.said} take {spell(more, unit)} for a batch of {solution['batch']:,}, outside the pipeline: the step, "
        f"so the TBT, is {spell(solution['time_s'] + more, unit)}; time_s, the objective and its bound are of the "
        f"{dense.moe} layers with experts, and the choice weighs those alone"
    )


def code(result: Result, asked: Asked, unit: str) -> int:
    """Done, infeasible, or no plan; and why, with the best possible."""
    who = asked.instance.name or asked.instance.pattern
    for conflict in result.conflicts:
        complain(f"{who}: infeasible: {_said(conflict, asked, unit)}")
    if result.status == "INFEASIBLE":
        return INFEASIBLE
    if result.status == "UNKNOWN":
        limit = "" if result.stop == "FINISHED" else f" before the {result.stop} limit was hit"
        complain(f"{who}: no plan that keeps the limits was found{limit}; {_advice(result)}")
        return NO_PLAN
    return DONE


def _advice(result: Result) -> str:
    """What may find a plan after all."""
    if result.method != "exact":
        return "--method exact also looks at other orders"
    option = MORE.get(str(result.stop))
    return "no other method looks at more orders" if option is None else f"{option} lets exact go on"


MORE = {"TIME": "a longer --time-limit", "NODES": "a larger --nodes-limit"}
"""What lets a search go on that a limit ended."""


def _said(conflict: Mapping[str, Any], asked: Asked, unit: str) -> str:
    """A conflict in the words of the command line."""
    instance, dense = asked.instance, asked.dense
    if conflict["rule"] == "tbt_slo_s" and instance.tbt_slo_s is not None:
        which = conflict["message"].rpartition(" with ")[2]
        found = re.search(r"a batch of (\d+)", which)
        if dense is None or asked.tbt_s is None or found is None:
            limit = spell(instance.tbt_slo_s, unit, glued=True)
            return f"--tbt {limit} is below the best possible, {spell(conflict['best'], unit)} with {which}"
        more = dense.seconds(int(found[1]))
        which = re.sub(r"(gets below) (\S+) s$", lambda at: f"{at[1]} {spell(float(at[2]) + more, unit)}", which)
        return (
            f"--tbt {spell(asked.tbt_s, unit, glued=True)} is below the best possible, "
            f"{spell(conflict['best'] + more, unit)}: {spell(conflict['best'], unit)} in {dense.moe} layers with "
            f"experts and {spell(more, unit)} in {dense.said}, with {which}"
        )
    if conflict["rule"] == "memory_bytes" and instance.memory_bytes is not None:
        need, room = conflict["best"] / 1e9, instance.memory_bytes / 1e9
        most = conflict["message"].rpartition(": ")[2]
        return f"the smallest batch needs {need:.4g} GB, {asked.memory} is {room:.4g} GB: {singular(most)}"
    return str(conflict["message"])
