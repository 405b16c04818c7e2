"""Every family of an instance, one after another."""

from __future__ import annotations

from collections.abc import Collection

from moeopt.limits import Deadline
from moeopt.mesh.clock import OutOfTime
from moeopt.mesh.config import Config, Family
from moeopt.mesh.families.apart import apart
from moeopt.mesh.families.colocated import colocated
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.decode import decode
from moeopt.mesh.families.long_context import long_context
from moeopt.mesh.families.prefill import prefill
from moeopt.mesh.given import SERVES
from moeopt.mesh.instance import MeshInstance

QUICK = ("prefill", "decode", "long", "colocated", "apart")
"""Where time is short the first two are looked at first: together they serve requests, soonest."""
_FAMILIES = {"colocated": colocated, "prefill": prefill, "decode": decode, "apart": apart, "long": long_context}


def configs(instance: MeshInstance) -> list[Config]:
    """All configurations of all demands, families and types of GPU, usable or with every reason against them.

    Each shape comes once a family and format of the cache, with the batch, chunk, draft and overlap that give it the
    most requests a second within the service levels and memory.

    Strength: exact over the shapes of `moeopt.mesh.families.ways.ways` under the model of `moeopt.mesh.step`.
    """
    return within(instance, Deadline(None))[0]


def within(instance: MeshInstance, deadline: Deadline, last: Deadline | None = None) -> tuple[list[Config], bool]:
    """Configurations of the families that are finished in time, and whether these are all.

    A family that is not finished is left out: choices of its shapes would not be the best ones. `last` counts instead
    of `deadline` until there is one for every phase of every demand.
    """
    found: dict[tuple[int, Family], list[Config]] = {}
    asked = [(place, family) for place in range(len(instance.demands)) for family in instance.families]
    order = sorted(asked, key=lambda one: QUICK.index(one[1])) if deadline.watched else asked
    whole = True
    try:
        for place, family in order:
            until = deadline if last is None or _serves(instance, found) else last
            found[place, family] = _FAMILIES[family](Context(instance, place, instance.demands[place], until))
    except OutOfTime:
        whole = False
    return [config for one in asked for config in found.get(one, [])], whole


def _serves(instance: MeshInstance, found: Collection[tuple[int, Family]]) -> bool:
    """Whether these families of demands serve every phase of every demand."""
    rows = {(place, phase) for place, family in found for phase in (0, 1) if SERVES[family][phase]}
    asked = {phase for family in instance.families for phase in (0, 1) if SERVES[family][phase]}
    return all((place, phase) in rows for place in range(len(instance.demands)) for phase in asked)
