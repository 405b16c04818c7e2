"""Load of the busiest rank over the mean, by EP and redundant experts: a table, measured on loads that are named."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

from moeopt import kinds
from moeopt.cost.checks import is_number, whole
from moeopt.documents import sha256
from moeopt.errors import InstanceError, Violation, Violations

Traffic = Literal["mixed", "one-domain"]
Row = tuple[int, int, float]
SHIPPED = "imbalance.json"


@dataclass(frozen=True)
class Imbalance:
    """A table of load ratios.

    Parameters
    ----------
    source
        Which loads, which placement.
    rows
        ``(ep, redundant, ratio)``: the busiest rank's load over the mean, at least 1.
    experts
        Experts of a layer in these rows; ``None``: any number.
    others
        Tables for other numbers of experts.

    Raises
    ------
    InstanceError
        No rows, counts that are not whole, ratios below 1, a pair of EP and redundant experts twice, two tables for
        one number of experts.

    >>> table = Imbalance("two points", ((8, 0, 1.2), (64, 0, 2.0), (64, 32, 1.1)))
    >>> table.at(1, 0), table.at(64, 32), table.at(64, 16), table.at(8, 8)
    (1.0, 1.1, 2.0, 1.2)
    """

    source: str
    rows: tuple[Row, ...]
    experts: int | None = None
    others: tuple[Imbalance, ...] = ()

    def __post_init__(self) -> None:
        check = Violations()
        kinds.some(check, "rows", self.rows)
        others = kinds.listed(check, "others", self.others, Imbalance)
        check.raise_if_any()
        rows = list(self.rows)
        for place, row in enumerate(rows):
            if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != 3:
                rule = "must be EP, redundant experts and a ratio"
                check.refuse("rows", row, where=str(place), rule=rule, fix="Write (64, 0, 2.0)")
        check.raise_if_any()
        object.__setattr__(self, "rows", tuple(tuple(row) for row in rows))
        object.__setattr__(self, "others", others)
        if not self.rows:
            check.add("imbalance", "no rows", rule="there must be one", fix="Use Imbalance.even()")
        if self.experts is not None:
            whole(check, **{"imbalance.experts": self.experts})
        seen = set()
        for place, (ep, redundant, ratio) in enumerate(self.rows):
            whole(check, **{f"imbalance[{place}].ep": ep})
            whole(check, 0, **{f"imbalance[{place}].redundant": redundant})
            if not is_number(ratio) or ratio < 1:
                check.refuse(f"imbalance[{place}].ratio", ratio, rule="must be a finite number >= 1", fix="Use 1")
            if (ep, redundant) in seen:
                check.add(f"imbalance[{place}]", (ep, redundant), rule="is there twice", fix="Keep one")
            seen.add((ep, redundant))
        self._check_others(check)
        check.raise_if_any()

    def _check_others(self, check: Violations) -> None:
        if not self.others:
            return
        known = [self.experts, *(table.experts for table in self.others)]
        for table in self.others:
            if table.others:
                check.add("imbalance.others", table.source, rule="has tables of its own beside it", fix="Flatten them")
        for experts in known:
            if experts is None or known.count(experts) > 1:
                fix = "Give each table its own number of experts"
                check.add("imbalance.experts", experts, rule="does not tell the tables apart", fix=fix)

    @classmethod
    def even(cls) -> Imbalance:
        """All ranks alike, which must be asked for: no real service is."""
        return cls("even loads, as asked", ((1, 0, 1.0),))

    @classmethod
    @cache
    def shipped(cls, traffic: Traffic = "mixed") -> Imbalance:
        """Real loads that are shipped with the package.

        Parameters
        ----------
        traffic
            ``mixed``: all domains at once, replicas fitted to what is served, as where an engine re-balances;
            ``one-domain``: one placement for all, each domain served alone, as right after a shift. The truth of a
            service lies between.

        Raises
        ------
        InstanceError
            Another kind of traffic.

        >>> Imbalance.shipped().at(72, 32, experts=256) < Imbalance.shipped("one-domain").at(72, 32, experts=256)
        True
        """
        document = json.loads(files("moeopt.mesh").joinpath(SHIPPED).read_text(encoding="utf-8"))
        if traffic not in document["traffic"]:
            fix = f"Use {' or '.join(document['traffic'])}"
            raise InstanceError([Violation("traffic", "", repr(traffic), "is no shipped table", fix)])
        return cls.from_dict(document["traffic"][traffic])

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Imbalance:
        """The table of a document as `to_dict` makes it; unknown fields are refused."""
        check = Violations()
        for name in sorted(set(document) - {"source", "rows", "experts", "others"}):
            check.add(f"imbalance.{name}", "...", rule="is no field of a table of imbalance", fix="Leave it out")
        for name in ("source", "rows"):
            if name not in document:
                check.add(f"imbalance.{name}", "missing", rule="must be given", fix="Give it")
        check.raise_if_any()
        others = tuple(cls.from_dict(table) for table in document.get("others", ()))
        return cls(document["source"], document["rows"], document.get("experts"), others)

    def to_dict(self) -> dict[str, Any]:
        """A strict JSON document; `from_dict` reads it back."""
        document: dict[str, Any] = {"source": self.source, "rows": [list(row) for row in self.rows]}
        if self.experts is not None:
            document["experts"] = self.experts
        if self.others:
            document["others"] = [table.to_dict() for table in self.others]
        return document

    @cached_property
    def digest(self) -> str:
        """Short digest of all figures, for documents that name a table and do not repeat it."""
        return sha256(self.to_dict())[:16]

    def of(self, experts: int | None) -> Imbalance:
        """The table for the number of experts nearest to this by ratio; of equals the smaller.

        >>> Imbalance.shipped().of(60).experts, Imbalance.even().of(60).experts
        (64, None)
        """
        if experts is None or not self.others:
            return self
        return min((self, *self.others), key=lambda one: (abs(math.log((one.experts or 1) / experts)), one.experts))

    def at(self, ep: int, redundant: int, experts: int | None = None) -> float:
        """The ratio at this EP and so many redundant experts.

        What lies between is read on the safe side: the next larger EP stands for a degree that is not there (the
        largest for what is beyond), and there the most replicas that are no more than asked for. Where the experts are
        known, replicas are compared as slots of a rank, because the same number of replicas is less on more ranks.
        One rank has nothing to balance.

        >>> Imbalance("", ((128, 0, 2.0), (128, 128, 1.1)), experts=256).at(125, 119)  # three slots a rank, as 128 has
        1.1
        """
        if ep <= 1:
            return 1.0
        table = self.of(experts)
        degrees = table._degrees
        place = min(bisect_right(degrees, ep - 1), len(degrees) - 1)
        points = table._points[degrees[place]]
        limit = redundant
        if table.experts is not None and degrees[place] != ep:
            mine = table.experts if experts is None else experts
            limit = max((mine + redundant) // ep * degrees[place] - table.experts, 0)
        return points[max(bisect_right(points, (limit, math.inf)) - 1, 0)][1]

    @cached_property
    def _degrees(self) -> list[int]:
        return sorted({row[0] for row in self.rows})

    @cached_property
    def _points(self) -> dict[int, list[tuple[int, float]]]:
        """By EP, redundant experts and their ratio, rising."""
        points: dict[int, list[tuple[int, float]]] = {degree: [] for degree in self._degrees}
        for ep, redundant, ratio in sorted(self.rows):
            points[ep].append((redundant, ratio))
        return points
