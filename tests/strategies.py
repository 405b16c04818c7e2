"""Hypothesis strategies that build valid placement instances and plans over the whole domain, filtering nothing."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

from hypothesis import strategies as st

from moeopt.placement import PlacementInstance

# --- loads ------------------------------------------------------------------------------------------------------------

small_ints = st.integers(0, 20)
huge_ints = st.integers(0, 2**63 - 1)
plain_floats = st.floats(0, 1000, allow_subnormal=False)
wild_floats = st.one_of(
    st.floats(0, 1e290, allow_subnormal=False),
    st.sampled_from([0.0, 2.0**-1022, 1e-300, 1e-9, 0.1, 1.0, 1e12, 1e290]),
)
ties = st.sampled_from([0, 1, 1, 3])
KINDS = {"ints": small_ints, "ties": ties, "huge": huge_ints, "floats": plain_floats, "wild": wild_floats}


def load_rows(num_experts: int, num_layers: int, kinds: tuple[str, ...] = tuple(KINDS)) -> st.SearchStrategy[Any]:
    """(L, E) rows of one kind, some of them idle."""

    def table(kind: str) -> st.SearchStrategy[Any]:
        row = st.lists(KINDS[kind], min_size=num_experts, max_size=num_experts)
        idle = st.just([0] * num_experts)
        skewed = row.map(lambda items: [items[0], *[type(items[0])(0)] * (num_experts - 1)])
        return st.lists(st.one_of(row, row, row, skewed, idle), min_size=num_layers, max_size=num_layers)

    return st.sampled_from(kinds).flatmap(table)


# --- instances --------------------------------------------------------------------------------------------------------


def _topped_up(draw: st.DrawFn, least: int, most: list[int], at_once: int) -> list[int]:
    """Slots per GPU, each at most `most`, together at least `least`; often exactly full."""
    counts = [draw(st.integers(0, min(top, at_once))) for top in most]
    gpu = 0
    while sum(counts) < least:  # the shape decides where there is room
        if counts[gpu] < most[gpu]:
            counts[gpu] += 1
        gpu = (gpu + 1) % len(most)
    return counts


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    max_layers: int = 3,
    max_experts: int = 10,
    max_gpus: int = 6,
    max_slots: int = 5,
    kinds: tuple[str, ...] = tuple(KINDS),
    splits: tuple[str, ...] = ("even", "even", "free"),
    fills: tuple[str, ...] = ("all", "at_most"),
    rules: bool = True,
    **fixed: Any,
) -> PlacementInstance:
    """Any instance that has a plan: unequal GPUs, nodes, groups, floors, pins and prohibitions (`rules`) and all."""
    num_gpus = draw(st.integers(1, max_gpus))
    num_nodes = draw(st.sampled_from([n for n in range(1, num_gpus + 1) if num_gpus % n == 0]))
    shuffled = draw(st.booleans()) and draw(st.booleans())
    nodes = [gpu // (num_gpus // num_nodes) for gpu in range(num_gpus)]
    if shuffled:
        nodes = draw(st.permutations(nodes))
    num_experts = draw(st.integers(1, max_experts))
    num_groups = draw(st.sampled_from([q for q in range(1, num_experts + 1) if num_experts % q == 0]))
    groups = draw(st.sampled_from([None, num_groups]))
    distinct = fixed.pop("distinct", None)
    distinct = draw(st.booleans()) if distinct is None else distinct
    hierarchical = groups is not None and num_nodes > 1 and num_groups % num_nodes == 0
    homes = num_nodes if hierarchical else 1
    least = num_experts // homes
    fewest = -(-least // (num_gpus // homes))
    alike = draw(st.booleans()) and draw(st.integers(fewest, max(fewest, max_slots)))  # slots of every GPU, or False
    slots = [0] * num_gpus
    for home in range(homes):
        members = [gpu for gpu in range(num_gpus) if homes == 1 or nodes[gpu] == home]
        most = least if distinct else least + max_slots
        if alike:  # the shape that engines have
            counts = [min(alike, most)] * len(members)
        else:
            counts = _topped_up(draw, least, [most] * len(members), max_slots)
        for gpu, count in zip(members, counts, strict=True):
            slots[gpu] = count
    speed = draw(
        st.one_of(
            st.none(),
            st.sampled_from([0.5, 2.0, 3.0, 0.1]).map(lambda pace: [pace] * num_gpus),
            st.lists(st.sampled_from([1.0, 2.0, 0.75, 1 / 3, 1e-3, 1e3]), min_size=num_gpus, max_size=num_gpus),
        )
    )
    num_layers = draw(st.integers(1, max_layers))
    fields: dict[str, Any] = {
        "slots": slots,
        "speed": speed,
        "nodes": nodes,
        "groups": groups,
        "group_rule": draw(st.sampled_from(["auto", "hierarchical"])) if hierarchical else "auto",
        "distinct": distinct,
        "split": draw(st.sampled_from(splits)),
        "fill": draw(st.sampled_from(fills)),
        "floor_rule": draw(st.sampled_from(["per_expert", "per_replica"])),
        "floor_tokens": draw(st.sampled_from([0, 0, 0.5, 2, 7.3, 1e4, 1e20])),
        "steps": draw(st.sampled_from([1, 1, 3])),
        "name": draw(st.sampled_from(["", "a name"])),
        "layers": draw(st.one_of(st.none(), st.just([7 + 2 * row for row in range(num_layers)]))),
    }
    fields |= fixed
    loads = draw(load_rows(num_experts, num_layers, kinds))
    free = PlacementInstance(loads, **fields)
    if not rules or not draw(st.sampled_from([False, False, True])):
        return free
    held = draw(plans(free))[0]
    hosted = sorted({(e, g) for e, g in zip(held, free.gpu_of_slot.tolist(), strict=True) if e >= 0})
    others = [(e, g) for e in range(num_experts) for g in range(num_gpus) if (e, g) not in set(hosted)]
    pin = draw(st.lists(st.sampled_from(hosted), max_size=2))
    forbid = draw(st.lists(st.sampled_from(others), max_size=3)) if others else []
    return PlacementInstance(loads, **fields, pin=pin, forbid=forbid)


def tiny(**fixed: Any) -> st.SearchStrategy[PlacementInstance]:
    """Instances small enough for `oracles.optimum`."""
    small = {"max_layers": 1, "max_experts": 4, "max_gpus": 3, "max_slots": 3}
    return instances(**(small | fixed))


# --- plans ------------------------------------------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn, instance: PlacementInstance) -> list[list[int]]:
    """A legal plan of an instance without pins and prohibitions: experts in any order, round and round.

    A GPU takes consecutive experts of the round, of which it has no more slots than there are, so none comes twice.
    """
    rows = []
    ids = sorted(set(instance.groups)) if instance.groups is not None else []
    for _ in range(instance.num_layers):
        row = [-1] * instance.num_slots
        if instance.hierarchical:
            dealt = draw(st.permutations(ids))
            each = len(ids) // len(instance.node_ids)
            homes = [set(dealt[n * each : (n + 1) * each]) for n in range(len(instance.node_ids))]
        else:
            homes = [None]
        for node, home in zip(instance.node_ids if instance.hierarchical else [None], homes, strict=True):
            experts = [e for e in range(instance.num_experts) if home is None or instance.groups[e] in home]
            order = draw(st.permutations(experts))
            at = [s for s, g in enumerate(instance.gpu_of_slot.tolist()) if node is None or instance.node[g] == node]
            for slot, expert in zip(at, islice(cycle(order), len(at)), strict=True):
                row[slot] = expert
        if instance.fill == "at_most":  # leave a slot of a second copy empty now and then
            for slot in range(instance.num_slots):
                if row.count(row[slot]) > 1 and draw(st.booleans()):
                    row[slot] = -1
        rows.append(row)
    return rows
