"""Many shapes as columns, and figures of closed forms looked up once for every distinct row of columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from moeopt.cost.noise import expected_maximum
from moeopt.cost.roofline import Numerics
from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import LayerKind, layer_kinds
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.imbalance import Imbalance
from moeopt.mesh.shape import Shape

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
COLUMNS = tuple(item.name for item in fields(Shape) if item.type in ("int", int))
TINY = 1e-9
"""Stands for no tokens under a root."""


@dataclass(frozen=True)
class Setting:
    """What all shapes of a table share.

    Parameters
    ----------
    llm, gpu, numerics
        What is served, on which GPUs, in which formats.
    imbalance, overhead_s, transport
        As in `moeopt.mesh.instance.MeshInstance`.
    """

    llm: LlmFacts
    gpu: GpuType
    numerics: Numerics
    imbalance: Imbalance
    overhead_s: float
    transport: str = "auto"

    @cached_property
    def memo(self) -> dict[Hashable, dict[tuple[int, ...], tuple[float, ...]]]:
        """Figures by what they depend on (`Table.gather`)."""
        return {}


def noise_of(setting: Setting, held: Ints, ranks: Ints) -> Floats:
    """``z_G spread`` of the normal form of `moeopt.cost.normal_max_over_mean`, 0 where even loads were asked for.

    The spread is that of k different experts a token, hypergeometric: ``(1 - 1/G) (E - k) / (E - 1)``.
    """
    if all(ratio == 1 for _, _, ratio in setting.imbalance.rows):
        return np.zeros(len(ranks))
    top_k = int(setting.llm.top_k or 0)
    factors = {count: expected_maximum(count) for count in set(ranks.tolist())}
    highest = np.array([factors[count] for count in ranks.tolist()])
    result: Floats = highest * np.sqrt((1 - 1 / ranks) * np.maximum(held - top_k, 0) / np.maximum(held - 1, 1))
    return result


def missed(held: Ints, top_k: int) -> Floats:
    """``log(1 - k/E)``, replicas among E; 0 where every expert sees every token."""
    result: Floats = np.log1p(-np.where(held > top_k, top_k / np.maximum(held, 1), 0.0))
    return result


class Table:
    """Shapes as columns: ``tp dp cp kvp pp ep moe_tp dense_tp redundant`` and what follows from them, one row a shape.

    Degrees must be legal (`moeopt.mesh.rules`): closed forms refuse what they cannot divide.
    """

    pp: Ints
    tp: Ints
    dp: Ints
    cp: Ints
    kvp: Ints
    ep: Ints
    moe_tp: Ints
    dense_tp: Ints
    redundant: Ints

    def __init__(self, setting: Setting, shapes: Sequence[Shape]) -> None:
        self.setting = setting
        self.shapes = tuple(shapes)
        rows = np.array(list(map(attrgetter(*COLUMNS), self.shapes)), dtype=np.int64).reshape(-1, len(COLUMNS))
        for name, column in zip(COLUMNS, rows.T.copy(), strict=True):
            setattr(self, name, column)

    def take(self, rows: Ints) -> Table:
        """These rows, in this order, with what is known of them."""
        made = object.__new__(Table)
        made.setting, made.shapes = self.setting, tuple([self.shapes[row] for row in rows.tolist()])
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                setattr(made, name, value[rows])
        return made

    def __len__(self) -> int:
        return len(self.shapes)

    @cached_property
    def group(self) -> Ints:
        """GPUs that reduce the output of attention together."""
        return self.tp * self.kvp

    @cached_property
    def stage(self) -> Ints:
        """GPUs of a stage."""
        return self.tp * self.dp * self.cp * self.kvp

    @cached_property
    def out(self) -> Ints:
        """GPUs over which output projections are split: those of `group`, or the FFN's where they are fewer."""
        return np.array([s.ffn_gpus or s.tp * s.kvp for s in self.shapes], dtype=np.int64)

    @cached_property
    def ffn_stage(self) -> Ints:
        """GPUs of a stage that have an FFN."""
        return np.array([s.ffn_gpus or s.stage_gpus for s in self.shapes], dtype=np.int64)

    @cached_property
    def held(self) -> Ints:
        """Physical experts of a layer."""
        return int(self.setting.llm.experts or 0) + self.redundant

    @cached_property
    def load(self) -> Floats:
        """Busiest rank over mean."""
        at, experts = self.setting.imbalance.at, self.setting.llm.experts
        result: Floats = self.gather(lambda ep, extra: (at(ep, extra, experts),), self.ep, self.redundant, key="load")[
            0
        ]
        return result

    @cached_property
    def _noise(self) -> Floats:
        """Expected excess of the busiest rank, times the root of the tokens of a data-parallel rank."""
        top_k = int(self.setting.llm.top_k or 0)
        of = noise_of(self.setting, self.held, self.ep)
        result: Floats = of * np.sqrt(self.ep / (self.dp * max(top_k, 1)))
        return result

    def noise(self, tokens: Floats) -> Floats:
        """Busiest rank of one step over the mean, beyond `load`: chance, for so many tokens of each rank."""
        result: Floats = 1 + self._noise / np.sqrt(np.maximum(tokens, TINY))
        return result

    @cached_property
    def missed(self) -> Floats:
        """Logarithm of the part of tokens that a physical expert does not see."""
        return missed(self.held, int(self.setting.llm.top_k or 0))

    def gather(self, figures: Callable[..., Sequence[float]], *columns: Ints, key: Hashable) -> Floats:
        """Figures of every row, asked once for each distinct one: (figures, rows).

        `key` says what they depend on besides the setting and these columns: tables of one setting share them.
        """
        rows, places = self._distinct(columns)
        known = self.setting.memo.setdefault(key, {})
        for row in rows:
            if row not in known:
                known[row] = tuple(figures(*row))
        found = np.array([known[row] for row in rows], dtype=np.float64).reshape(len(rows), -1).T
        return found[:, places]

    def _distinct(self, columns: tuple[Ints, ...]) -> tuple[list[tuple[int, ...]], Ints]:
        """Rows of these columns, each once, and the place of every row among them; found once for the same arrays."""
        key = tuple(map(id, columns))
        known = self._places.get(key)
        if known is None:
            code, size = np.zeros(len(self), dtype=np.int64), 1
            for column in columns:
                more = int(column.max(initial=0)) + 1
                if size * more >= 2**63:
                    code = np.unique(code, return_inverse=True)[1]
                    size = len(code)
                code, size = code * more + column, size * more
            _, first, places = np.unique(code, return_index=True, return_inverse=True)
            rows = list(zip(*(column[first].tolist() for column in columns), strict=True))
            known = self._places[key] = (columns, rows, places.reshape(-1))
        return known[1], known[2]

    @cached_property
    def _places(self) -> dict[tuple[int, ...], tuple[tuple[Ints, ...], list[tuple[int, ...]], Ints]]:
        """By the identity of columns, which stay alive with it: what `_distinct` finds."""
        return {}

    def stages(self, kinds: int, layers: Sequence[int]) -> tuple[Floats, Floats]:
        """Layers of every kind in every stage that differs, and whether it ends the LLM: (S, R, K) and (S, R).

        Layers are cut in order into parts that differ by at most one, longer ones first; `layers` is each layer's kind.
        """
        found = {pp: _stages(pp, kinds, tuple(layers)) for pp in set(self.pp.tolist())}
        most = max(len(rows) for rows in found.values())
        filled = {pp: np.array(rows + [rows[-1]] * (most - len(rows)), dtype=np.float64) for pp, rows in found.items()}
        every = np.array([filled[pp] for pp in self.pp.tolist()])
        return every[:, :, :-1], every[:, :, -1]


def _stages(pp: int, kinds: int, layers: tuple[int, ...]) -> list[tuple[int, ...]]:
    small, more = divmod(len(layers), pp)
    rows: dict[tuple[int, ...], None] = {}
    start = 0
    for stage in range(pp):
        end = start + small + (stage < more)
        counts = [0] * kinds
        for layer in layers[start:end]:
            counts[layer] += 1
        rows[(*counts, int(stage == pp - 1))] = None
        start = end
    return list(rows)


Kind = tuple[LayerKind, bool]
"""Kind of a layer's attention, and whether it has experts."""


def kinds_of(llm: LlmFacts) -> tuple[list[Kind], list[int]]:
    """Kinds of layers, and the kind of every layer.

    >>> from moeopt.llm import find
    >>> kinds, layers = kinds_of(find("deepseek-v3"))
    >>> [moe for _, moe in kinds], layers[:4]
    ([False, True], [0, 0, 0, 1])
    """
    moe = set(llm.moe_layers)
    every = [(kind, layer in moe) for layer, kind in enumerate(layer_kinds(llm))]
    kinds = list(dict.fromkeys(every))
    return kinds, [kinds.index(kind) for kind in every]
