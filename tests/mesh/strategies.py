"""Hypothesis strategies that build valid purchases over given configurations, filtering nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from moeopt.llm.facts import LlmFacts
from moeopt.mesh import Config, Demand, GpuType, MeshInstance, Shape, Slo, Workload

FAMILIES = ("colocated", "prefill", "decode")
LLMS = [LlmFacts(name, "mixtral", 2, (), (0, 1), 8, 2) for name in ("small", "large")]
rates = st.one_of(st.integers(1, 12), st.sampled_from([0.1, 0.3, 1.7, 2.5, 10 / 3, 1e-3, 7e4]))


def gpu_type(name: str, stock: int | None = None, price: float | None = None) -> GpuType:
    """A GPU of the catalogue under this name: its figures do not matter where configurations are given."""
    known = GpuType.of("H100")
    return GpuType(name, known.machine, 8, 8, known.scale_up, known.network, stock, price)


def config(demand: int, family: Any, gpus: dict[str, int], rate: float, **more: Any) -> Config:
    """A measured configuration that serves its family's phases at one rate."""
    whole = {"prefill_per_s": rate, "decode_per_s": rate}
    served = {"colocated": whole, "prefill": {"prefill_per_s": rate}}.get(family, {"decode_per_s": rate})
    return Config(demand, family, Shape(family, next(iter(gpus))), 1, gpus, **{**served, **more})


@st.composite
def configs(
    draw: st.DrawFn, demands: int, types: list[str], families: tuple[str, ...], per_family: int = 2
) -> list[Config]:
    """Some of every family for every demand; now and then refused ones."""
    found = []
    for demand in range(demands):
        for family in families:
            for count in range(draw(st.integers(1, per_family))):
                used = draw(st.lists(st.sampled_from(types), min_size=1, max_size=2, unique=True))
                gpus = {name: draw(st.integers(1, 4)) for name in used}
                more: dict[str, Any] = {"name": f"{family}-{demand}-{count}"}
                if family != "prefill":
                    more["tpot_s"] = draw(st.sampled_from([0.01, 0.02, 0.05]))
                if draw(st.integers(0, 9)) == 0:
                    more["reasons"] = ("not today",)
                found.append(config(demand, family, gpus, draw(rates), **more))
    return found


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    objectives: tuple[str, ...] = ("gpus", "price", "goodput", "time"),
    max_types: int = 2,
    max_demands: int = 2,
    most_gpus: int = 7,
    per_family: int = 2,
) -> MeshInstance:
    """Any small purchase; it may be infeasible."""
    objective: Any = draw(st.sampled_from(objectives))
    names = ["A", "B"][: draw(st.integers(1, max_types))]
    must = objective in ("goodput", "time")
    gpus = [
        gpu_type(
            name,
            draw(st.integers(0, most_gpus)) if must or draw(st.booleans()) else None,
            draw(st.sampled_from([1, 2.5, 0.3, 7])) if objective == "price" else None,
        )
        for name in names
    ]
    count = draw(st.integers(1, max_demands))
    rated = objective in ("gpus", "price") or count > 1 or draw(st.booleans())
    demands = [
        Demand(LLMS[place], Workload(100, 10, rate_per_s=draw(rates) if rated else None), Slo(tpot_s=0.05))
        for place in range(count)
    ]
    families: tuple[Any, ...] = draw(st.sampled_from([FAMILIES, ("prefill", "decode"), ("decode",), ("colocated",)]))
    listed = draw(configs(count, names, families, per_family))
    return MeshInstance(tuple(demands), tuple(gpus), objective, families, configs=tuple(listed))
