"""Every family of an instance, one after another."""

from __future__ import annotations

from moeopt.mesh.config import Config
from moeopt.mesh.families.apart import apart
from moeopt.mesh.families.colocated import colocated
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.decode import decode
from moeopt.mesh.families.long_context import long_context
from moeopt.mesh.families.prefill import prefill
from moeopt.mesh.instance import MeshInstance

_FAMILIES = {"colocated": colocated, "prefill": prefill, "decode": decode, "apart": apart, "long": long_context}


def configs(instance: MeshInstance) -> list[Config]:
    """All configurations of all demands, families and types of GPU, usable or with every reason against them.

    Each shape comes once a family and format of the cache, with the batch, chunk, draft and overlap that give it the
    most requests a second within the service levels and memory.

    Strength: exact over the shapes of `moeopt.mesh.families.ways.ways` under the model of `moeopt.mesh.step`.
    """
    found = []
    for place, demand in enumerate(instance.demands):
        for family in instance.families:
            if family in _FAMILIES:
                found += _FAMILIES[family](Context(instance, place, demand))
    return found
