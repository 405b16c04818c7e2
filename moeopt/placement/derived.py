"""What follows from the data of a placement instance: sizes, exact loads, ideals; computed when first asked for."""

from __future__ import annotations

import copy
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.fractions import total

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance
    from moeopt.workload.table import Loads


class Derived:
    """Properties of an instance; the fields they read are those of `PlacementInstance`."""

    __dataclass_fields__: dict[str, Any]
    loads: Loads
    steps: int
    window_steps: tuple[int, ...]
    num_shared: int
    shared: str | None
    floor_tokens: float
    distinct: bool
    slots: tuple[int, ...]
    speed: tuple[float, ...]
    node: tuple[int, ...]
    groups: tuple[int, ...] | None
    pin: tuple[tuple[int, int], ...]
    forbid: tuple[tuple[int | None, int], ...]
    split: str
    window_loads: Loads | None
    current: NDArray[np.int32] | None
    current_gpu: tuple[int, ...] | None
    max_moves: int | None
    max_moves_per_layer: int | None
    move_cost: float
    lost: tuple[int, ...]
    retire: tuple[int, ...]
    min_replicas: tuple[int, ...]
    survive_nodes: int

    @property
    def num_layers(self) -> int:
        """L."""
        return int(self.loads.shape[0])

    @property
    def num_experts(self) -> int:
        """E."""
        return int(self.loads.shape[1])

    @property
    def num_gpus(self) -> int:
        """G."""
        return len(self.slots)

    @property
    def num_slots(self) -> int:
        """S, over all GPUs."""
        return sum(self.slots)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Distinct ids of nodes that have a GPU which is not gone, ascending."""
        gone = self.gone
        return tuple(sorted({node for gpu, node in enumerate(self.node) if gpu not in gone}))

    @property
    def gone(self) -> frozenset[int]:
        """GPUs that are lost or retired."""
        return frozenset((*getattr(self, "lost", ()), *getattr(self, "retire", ())))  # not set while it is being built

    def changed(self, **fields: Any) -> PlacementInstance:
        """A copy with other fields, unchecked and rid of all that was computed from the old ones; data is shared.

        For computing only: what is derived here was checked at birth.
        """
        other = copy.copy(self)
        for name in [key for key in other.__dict__ if key not in self.__dataclass_fields__]:
            del other.__dict__[name]
        for key, value in fields.items():
            object.__setattr__(other, key, value)
        return other  # type: ignore[return-value]

    @cached_property
    def windows(self) -> tuple[PlacementInstance, ...]:
        """W instances of one window each; none where there is one window only."""
        if self.window_loads is None:
            return ()
        found = []
        for loads, passes in zip(self.window_loads, self.window_steps, strict=True):
            table = np.ascontiguousarray(loads)
            table.flags.writeable = False
            found.append(self.changed(loads=table, window_loads=None, steps=passes, window_steps=(passes,)))
        return tuple(found)

    @property
    def num_hosted(self) -> int:
        """Shared experts that are placed like others; they have the last ids."""
        return self.num_shared if self.shared == "hosted" else 0

    @property
    def given_loads(self) -> Loads:
        """(L, E) or (W, L, E) loads as they were given, without hosted shared experts."""
        table = self.loads if self.window_loads is None else self.window_loads
        return table[..., : table.shape[-1] - self.num_hosted]

    @cached_property
    def even(self) -> PlacementInstance:
        """The same instance under the even split."""
        return self.changed(split="even")

    @cached_property
    def left(self) -> PlacementInstance:
        """The instance on the GPUs that are not gone, numbered anew; itself where none is gone."""
        from moeopt.placement.instance import PlacementInstance
        from moeopt.placement.survivors import survivors

        assert isinstance(self, PlacementInstance)
        return survivors(self)

    @property
    def uniform(self) -> bool:
        """All GPUs have equal slots and equal speed."""
        return len(set(self.slots)) == 1 and len(set(self.speed)) == 1

    @property
    def hierarchical(self) -> bool:
        """Groups are kept on one node each: given, more than one node, and dividing over the nodes."""
        if self.groups is None or len(self.node_ids) == 1:
            return False
        return len(set(self.groups)) % len(self.node_ids) == 0

    @property
    def constrained(self) -> bool:
        """Some (expert, GPU) pairs are pinned or forbidden."""
        return bool(self.pin or self.forbid)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the rules turned into where that was not asked for."""
        if self.groups is None or self.hierarchical or len(self.node_ids) == 1:
            return ()
        count = len(set(self.groups))
        groups = "1 group does" if count == 1 else f"{count} groups do"
        return (f"groups ignored (global placement): {groups} not divide over {len(self.node_ids)} nodes",)

    @cached_property
    def slot_start(self) -> NDArray[np.int64]:
        """(G + 1,) first slot of each GPU in GPU-major order, and S at the end."""
        return np.concatenate([[0], np.cumsum(self.slots)]).astype(np.int64)

    @cached_property
    def gpu_of_slot(self) -> NDArray[np.int64]:
        """(S,) GPU of each slot."""
        return np.repeat(np.arange(self.num_gpus), self.slots)

    @cached_property
    def floor(self) -> Fraction:
        """K, the load floor in tokens over the window, exact."""
        return Fraction(self.floor_tokens) * self.steps

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """(L, E) ``w_e = max(a_e, K)``, the load each expert costs, in floating point."""
        return np.maximum(self.loads.astype(np.float64), float(self.floor))

    @cached_property
    def greedy_counts(self) -> NDArray[np.int64]:
        """(L, E) replicas by the greedy rule over all GPUs, at most one a GPU where they are distinct."""
        usable = sum(count > 0 for count in self.slots)
        return greedy_counts(self.weights, self.num_slots, usable if self.distinct else None)

    @cached_property
    def exact_loads(self) -> tuple[NDArray[Any], int, int]:
        """Loads and K as whole numbers over one denominator: ``(a, K, denominator)``.

        ``a`` is (L, E) int64 where sums of S entries fit, else Python ints in an object array.
        """
        denominator = self.floor.denominator  # a power of two, like that of every float
        if self.loads.dtype == np.int64:
            whole: NDArray[Any] = self.loads if denominator == 1 else self.loads.astype(object) * denominator
        elif self._whole_loads:
            fits = int(self.loads.max()) * denominator < 2**62
            whole = self.loads.astype(np.int64).astype(np.int64 if fits else object) * denominator
        else:
            ratios = [value.as_integer_ratio() for value in self.loads.ravel().tolist()]
            denominator = max(denominator, *(bottom for _, bottom in ratios))
            tops = [top * (denominator // bottom) for top, bottom in ratios]
            whole = np.array(tops, dtype=np.int64 if max(tops) < 2**62 else object).reshape(self.loads.shape)
        return whole, int(self.floor * denominator), denominator

    @property
    def _whole_loads(self) -> bool:
        """Loads are doubles without a fraction, and small enough for int64."""
        return bool(self.loads.max() < 2.0**62 and (np.trunc(self.loads) == self.loads).all())

    @cached_property
    def ideal(self) -> tuple[Fraction, ...]:
        """L exact values ``sum_e w_e / sum_g speed_g``: the cost of every GPU in perfect balance.

        GPUs that are gone do not count.
        """
        whole, floor, denominator = self.exact_loads
        speed = self.total_speed
        fits = max(int(whole.max()), floor) * self.num_experts < 2**62
        weights = np.maximum(whole if fits else whole.astype(object), floor)
        over, under = speed.denominator, denominator * speed.numerator
        ideals = [Fraction(total * over, under) for total in weights.sum(axis=1).tolist()]
        if self.exact_base is not None:
            carriers = sum(count > 0 for count in self.slots)
            ideals = [even + each * carriers / speed for even, each in zip(ideals, self.exact_base, strict=True)]
        return tuple(ideals)

    @cached_property
    def total_speed(self) -> Fraction:
        """``sum_g v_g`` over GPUs that are not gone, exact."""
        gone = self.gone
        return total(Fraction(pace) for gpu, pace in enumerate(self.speed) if gpu not in gone)

    @property
    def par(self) -> tuple[Fraction, ...]:
        """L exact values that a layer's cost is measured against: the ideal; 1 with windows, whose costs are ratios."""
        return self.ideal if self.window_loads is None else (Fraction(1),) * self.num_layers

    @property
    def engine_split(self) -> bool:
        """The engine's own dispatch rule shares the tokens, not we."""
        return self.split not in ("even", "free")

    @cached_property
    def exact_base(self) -> tuple[Fraction, ...] | None:
        """L exact constant loads of every GPU with slots, for its copies of shared experts; ``None`` where none."""
        if self.shared not in ("replicated", "fused"):
            return None
        from moeopt.placement.shared import constant_loads

        return constant_loads(self)  # type: ignore[arg-type]

    @cached_property
    def bare(self) -> PlacementInstance:
        """The same instance without constant loads; itself where there are none."""
        from moeopt.placement.window_bounds import alike

        if self.exact_base is None:
            return self  # type: ignore[return-value]
        return alike(self, self.loads, self.floor_tokens, self.steps)  # type: ignore[arg-type]

    @cached_property
    def base(self) -> NDArray[np.float64] | None:
        """(L, G) constant load of every GPU, tokens; ``None`` where there is none."""
        if self.exact_base is None:
            return None
        carriers = np.array([count > 0 for count in self.slots], dtype=np.float64)
        return np.array([float(each) for each in self.exact_base])[:, None] * carriers

    @cached_property
    def _stands_on_gone(self) -> bool:
        """Whether the running plan has slots on GPUs that are lost or retired; once repaired it has none."""
        gone = self.gone
        return self.current is not None and any(gpu in gone for gpu in self.current_gpu or ())

    @cached_property
    def extras(self) -> frozenset[str]:
        """Rules in force that plain methods do not know."""
        budgeted = self.max_moves is not None or self.max_moves_per_layer is not None or self.move_cost > 0
        found = {
            "windows": self.window_loads is not None,
            "engine_split": self.engine_split,
            "moves": self.current is not None and budgeted,
            "lost": self._stands_on_gone,
            "min_replicas": max(self.min_replicas) > 1,
            "survive_nodes": self.survive_nodes > 0,
            "base": self.base is not None,
        }
        return frozenset(name for name, there in found.items() if there)
