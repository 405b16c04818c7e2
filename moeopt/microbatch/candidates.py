"""The candidates: which numbers of micro-batches go with which batches, and how many tokens each part has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from moeopt.errors import Violations


@dataclass(frozen=True)
class Candidate:
    """m micro-batches of a step of `batch` tokens.

    >>> Candidate(4, 10).sizes
    (3, 3, 2, 2)
    """

    m: int
    batch: int

    @property
    def largest(self) -> int:
        """Tokens of the first micro-batch; no other has more."""
        return -(-self.batch // self.m)

    @property
    def alike(self) -> bool:
        """Whether all micro-batches have as many tokens."""
        return self.batch % self.m == 0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of each micro-batch; the larger ones first."""
        small, rest = divmod(self.batch, self.m)
        return (small + 1,) * rest + (small,) * (self.m - rest)


def candidates(
    check: Violations,
    m: tuple[int, ...],
    batches: tuple[int, ...] | None,
    *,
    micro_batch: int,
    uneven: bool,
    default: bool,
) -> tuple[tuple[int, ...], tuple[Candidate, ...], list[str]]:
    """Pairs that can be, the m that have one, and notes on those that have none.

    An m or a batch with no partner at all is a violation, except for an m that nobody asked for.
    """
    if batches is None:
        return m, tuple(Candidate(count, count * micro_batch) for count in m), []
    fits = {count: {batch for batch in batches if _fits(count, batch, uneven)} for count in m}
    some = set().union(*fits.values())
    kept = tuple(count for count in m if fits[count])
    notes = []
    for count in m:
        if fits[count]:
            continue
        if default and kept:
            notes.append(f"m = {count} is left out: {_why(count, max(batches))}")
        elif count > max(batches):
            rule = f"there are more micro-batches than tokens in the largest batch, {max(batches)}"
            check.add("m", count, rule=rule, fix=f"Use at most {max(batches)}")
        else:
            rule = f"divides none of the batches {_shown(batches)}"
            check.add("m", count, rule=rule, fix=_nearest(count, batches))
    for batch in batches:
        if kept and batch not in some:
            rule = f"can be cut into none of m = {_shown(m)}"
            fix = f"Use a multiple of {min(kept)}, or set uneven"
            check.add("batches", batch, rule=rule, fix=fix if batch >= min(m) else f"Use at least {min(m)}")
    pairs = [Candidate(count, batch) for batch in batches for count in kept if batch in fits[count]]
    skipped = len(kept) * len(batches) - len(pairs)
    if skipped:
        notes.append(f"{skipped} of {len(kept) * len(batches)} pairs of m and batch are left out: m does not divide")
    return kept, tuple(pairs), notes


def _fits(count: int, batch: int, uneven: bool) -> bool:
    return count <= batch and (uneven or batch % count == 0)


def _why(count: int, largest: int) -> str:
    return f"the largest batch is {largest}" if count > largest else "it divides no batch"


def _nearest(count: int, batches: tuple[int, ...]) -> str:
    below = max(batches) // count * count
    return f"Use a batch of {below} or {below + count}, or set uneven"


def _shown(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values[:6])) + (", ..." if len(values) > 6 else "")
