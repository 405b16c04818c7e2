"""Where a checkpoint's global expert ids live under expert parallelism, and what moves when its degree changes."""

from __future__ import annotations

from numbers import Integral

from moeopt.cost.checked import checked
from moeopt.cost.checks import divides, whole
from moeopt.errors import Violations


@checked
def expert_place(expert: int, *, experts: int, ep: int) -> tuple[int, int]:
    """Rank and local index of a global expert id, ``divmod(id, E/EP)``: ranks hold ids in order.

    Parameters
    ----------
    expert
        Global id, from 0.
    experts, ep
        ``E`` and EP, which divides it.

    Raises
    ------
    InstanceError
        Counts below 1, an EP that does not divide, an id out of range.

    Notes
    -----
    Strength: exact. A local index means nothing without the EP it was made under: only global ids belong in a
    checkpoint. Note on MoE systems.

    >>> expert_place(37, experts=64, ep=8), expert_place(37, experts=64, ep=16)
    ((4, 5), (9, 1))
    """
    each = _each(experts, ep, "expert", expert, experts)
    return divmod(int(expert), each)


@checked
def expert_at(rank: int, local: int, *, experts: int, ep: int) -> int:
    """The global id at a place: the inverse of `expert_place`.

    Raises
    ------
    InstanceError
        As in `expert_place`; a rank or a local index out of range.

    >>> expert_at(4, 5, experts=64, ep=8)
    37
    """
    check = Violations()
    each = 0
    with check.within():
        each = _each(experts, ep, "rank", rank, ep)
    whole(check, 0, local=local)
    if each and not isinstance(local, bool) and isinstance(local, Integral) and int(local) >= each:
        check.add("local", local, rule=f"a rank holds {each} experts", fix=f"Use 0 to {each - 1}")
    check.raise_if_any()
    return int(rank) * each + int(local)


@checked
def moved_experts(*, experts: int, old_ep: int, new_ep: int) -> list[int]:
    """Global ids whose rank is another one under a new EP, ranks keeping their number; each has to be loaded once.

    Raises
    ------
    InstanceError
        Counts below 1, degrees that do not divide the experts.

    Notes
    -----
    Strength: exact for ids in order on both sides; ranks that are numbered anew, or an order chosen for it, can move
    fewer.

    >>> moved_experts(experts=8, old_ep=2, new_ep=4)
    [2, 3, 4, 5, 6, 7]
    """
    check = Violations()
    whole(check, experts=experts, old_ep=old_ep, new_ep=new_ep)
    divides(check, "old_ep", old_ep, "experts", experts)
    divides(check, "new_ep", new_ep, "experts", experts)
    check.raise_if_any()
    experts, old_ep, new_ep = int(experts), int(old_ep), int(new_ep)
    old, new = experts // old_ep, experts // new_ep
    return [expert for expert in range(experts) if expert // old != expert // new]


def _each(experts: int, ep: int, name: str, value: int, below: int) -> int:
    """Experts of a rank; refuses an id that is not below its limit."""
    check = Violations()
    whole(check, experts=experts, ep=ep)
    divides(check, "ep", ep, "experts", experts)
    whole(check, 0, **{name: value})
    if not check.found and value >= below:
        check.add(name, value, rule=f"there are {below}, numbered from 0", fix=f"Use 0 to {below - 1}")
    check.raise_if_any()
    return int(experts) // int(ep)
