"""Which row of a plan is which layer of the LLM: absolute ids, places among the MoE layers, dense and MTP layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moeopt.errors import Violations
from moeopt.workload.table import id_ranges


@dataclass(frozen=True)
class LayerFacts:
    """What a map has to know of an LLM; ``None`` where it is not known.

    Parameters
    ----------
    layers
        All layers, dense ones included, MTP layers not.
    dense
        Ids of the layers that have no experts.
    mtp
        Number of draft layers (multi-token prediction), whose ids follow the last layer.
    experts
        E, routed experts of a layer.
    name
        What the LLM is called.

    >>> LayerFacts(5, (0, 1)).moe
    (2, 3, 4)
    """

    layers: int | None = None
    dense: tuple[int, ...] | None = None
    mtp: int = 0
    experts: int | None = None
    name: str = ""

    @property
    def moe(self) -> tuple[int, ...]:
        """Ids of the layers that have experts; none where layers or dense ones are not known."""
        if self.layers is None or self.dense is None:
            return ()
        dense = set(self.dense)
        return tuple(layer for layer in range(self.layers) if layer not in dense)

    @classmethod
    def of(cls, llm: Any) -> LayerFacts:
        """Take the facts from what describes an LLM: facts of `moeopt.llm`, the ``llm`` of a plan, or nothing.

        Raises
        ------
        InstanceError
            A number or an id that no LLM has.

        >>> LayerFacts.of({"layers": 4, "dense_layers": [0], "experts": 8}).moe
        (1, 2, 3)
        >>> LayerFacts.of(None)
        LayerFacts(layers=None, dense=None, mtp=0, experts=None, name='')
        """
        if llm is None or isinstance(llm, LayerFacts):
            return llm or cls()

        def get(*names: str) -> Any:
            for name in names:
                value = llm.get(name) if isinstance(llm, Mapping) else getattr(llm, name, None)
                if value is not None:
                    return value
            return None

        check = Violations()
        numbers = {"layers": get("layers"), "mtp": get("mtp_layers", "mtp"), "experts": get("experts")}
        for name, value in numbers.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                check.refuse(
                    f"llm.{name}", value, rule="must be a whole number >= 0", fix="Repair the facts of the LLM"
                )
        layers, dense = numbers["layers"], get("dense_layers", "dense")
        if dense is not None:
            dense = _dense(dense, layers, check)
        check.raise_if_any()
        return cls(layers, dense, numbers["mtp"] or 0, numbers["experts"], str(get("name") or ""))


def _dense(ids: Any, layers: Any, check: Violations) -> tuple[int, ...]:
    """Sorted ids of dense layers, each of them a layer."""
    listed = isinstance(ids, Sequence) and not isinstance(ids, str)
    if not listed or any(isinstance(one, bool) or not isinstance(one, int) for one in ids):
        check.add("llm.dense", ids, rule="must be layer ids", fix="Give them as 0,1,2, or none")
        return ()
    for one in ids:
        if one < 0 or (isinstance(layers, int) and one >= layers):
            known = "layers run from 0" + (f" to {layers - 1}" if isinstance(layers, int) else "")
            check.add("llm.dense", one, rule=known, fix="Give ids of layers, counted from 0")
    return tuple(sorted(set(ids)))


@dataclass(frozen=True)
class Rows:
    """The rows of a plan by what they are.

    Parameters
    ----------
    moe
        Row of each MoE layer of the LLM, in the order of the layers.
    dense, mtp
        Row by id of a dense layer, and by number of the draft layer.
    notes
        What was taken to be so.
    """

    moe: tuple[int, ...]
    dense: Mapping[int, int] = field(default_factory=dict)
    mtp: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def rows_of(ids: Sequence[int], facts: LayerFacts, check: Violations, *, by_position: bool = False) -> Rows:
    """Find the layers of an LLM among the rows of a plan.

    Parameters
    ----------
    ids
        L layer ids of the rows, all different.
    facts
        With `layers` and `dense` known.
    check
        Gets a violation where a MoE layer is missing, or where an id is no layer.
    by_position
        The ids count the MoE layers alone. Also understood unasked, and noted, where the ids are 0, 1, 2, ... for as
        many layers as have experts.

    >>> rows_of([0, 1, 2], LayerFacts(5, (0, 1)), Violations()).notes
    ('layers 0-2 are taken as the 3 MoE layers 2-4',)
    >>> rows_of([1, 3, 2], LayerFacts(4, (0,)), Violations()).moe
    (0, 2, 1)
    """
    assert facts.layers is not None and facts.dense is not None
    moe, dense, notes = facts.moe, set(facts.dense), []
    renumbered = tuple(ids)
    plain = sorted(ids) == list(range(len(moe)))
    if dense and (by_position or plain):
        beyond = range(facts.layers, facts.layers + len(ids))
        numbers = [*moe, *beyond]
        renumbered = tuple(numbers[one] if 0 <= one < len(numbers) else -1 for one in ids)
        if plain:
            notes.append(f"layers {id_ranges(sorted(ids))} are taken as the {len(moe)} MoE layers {id_ranges(moe)}")
    place = {layer: row for row, layer in enumerate(renumbered)}
    missing = [layer for layer in moe if layer not in place]
    if missing:
        rule = f"missing, and each of the {len(moe)} MoE layers needs a row"
        fix = "Plan all layers, or correct --layers-total and --dense if the LLM has fewer"
        check.add("layers", id_ranges(missing), rule=rule, fix=fix)
    strange = [ids[row] for row, layer in enumerate(renumbered) if not 0 <= layer < facts.layers + facts.mtp]
    if strange:
        last = f"layers run from 0 to {facts.layers - 1}"
        after = f", draft layers to {facts.layers + facts.mtp - 1}" if facts.mtp else ""
        fix = "Give the config of this LLM" + ("" if facts.mtp else ", or --mtp 1 if the last one is a draft layer")
        check.add("layers", id_ranges(sorted(strange)), rule=f"not of this LLM, whose {last}{after}", fix=fix)
    return Rows(
        tuple(place[layer] for layer in moe if layer in place),
        {layer: row for layer, row in place.items() if layer in dense},
        {layer - facts.layers: row for layer, row in place.items() if facts.layers <= layer < facts.layers + facts.mtp},
        tuple(notes),
    )
