"""Load of the busiest rank over the mean, by EP and redundant experts: a table, measured on loads that are named."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

from moeopt.cost.checks import is_number, whole
from moeopt.errors import Violations


@dataclass(frozen=True)
class Imbalance:
    """A table of load ratios.

    Parameters
    ----------
    source
        Which loads, which placement.
    rows
        ``(ep, redundant, ratio)``: the busiest rank's load over the mean, at least 1.

    Raises
    ------
    InstanceError
        No rows, counts that are not whole, ratios below 1, a pair of EP and redundant experts twice.

    >>> table = Imbalance("two points", ((8, 0, 1.2), (64, 0, 2.0), (64, 32, 1.1)))
    >>> table.at(1, 0), table.at(64, 32), table.at(64, 16), table.at(8, 8)
    (1.0, 1.1, 2.0, 1.2)
    """

    source: str
    rows: tuple[tuple[int, int, float], ...]

    def __post_init__(self) -> None:
        check = Violations()
        if not self.rows:
            check.add("imbalance", "no rows", rule="there must be one", fix="Use Imbalance.even()")
        seen = set()
        for place, (ep, redundant, ratio) in enumerate(self.rows):
            whole(check, **{f"imbalance[{place}].ep": ep})
            whole(check, 0, **{f"imbalance[{place}].redundant": redundant})
            if not is_number(ratio) or ratio < 1:
                check.add(f"imbalance[{place}].ratio", ratio, rule="must be a finite number >= 1", fix="Use 1")
            if (ep, redundant) in seen:
                check.add(f"imbalance[{place}]", (ep, redundant), rule="is there twice", fix="Keep one")
            seen.add((ep, redundant))
        check.raise_if_any()

    @classmethod
    def even(cls) -> Imbalance:
        """All ranks alike, which must be asked for: no real service is."""
        return cls("even loads, as asked", ((1, 0, 1.0),))

    @classmethod
    @cache
    def shipped(cls) -> Imbalance:
        """Real loads that are shipped with the package."""
        return cls.even()

    def at(self, ep: int, redundant: int) -> float:
        """The ratio at this EP and so many redundant experts.

        A smaller table value of `redundant` stands for what lies between (fewer replicas balance worse, so this is on
        the safe side); so does the next larger EP, and the largest beyond. One rank has nothing to balance.
        """
        if ep <= 1:
            return 1.0
        degrees = sorted({row[0] for row in self.rows})
        chosen = next((degree for degree in degrees if degree >= ep), degrees[-1])
        points = sorted((redundant_, ratio) for degree, redundant_, ratio in self.rows if degree == chosen)
        place = bisect_right([point[0] for point in points], redundant) - 1
        return points[max(place, 0)][1]
