"""The kernel's view of a layer: experts and empty slots in units, rows with homes, prices and caps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.rows import Rows, loads_of, rows_of
from moeopt.kernels.connectivity import Net

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Seats = tuple[Ints, Ints, Floats]

COPIES = 0.1
"""What all copies count beside the longest time, where times are what is made small."""
ROUNDING = 5e-13
"""What sums of loads may be above a cap by: half of what the referee lets pass."""


def search_units(instance: CollocationInstance) -> Ints:
    """(G,) the units that the search moves experts between."""
    return (
        np.arange(instance.num_gpus)
        if instance.objective == "tokens"
        else (instance.node if not instance.transport.merges else instance.unit)
    )


def search_rows(instance: CollocationInstance, row: int) -> Rows:
    """The rows of a layer, one a (token, expert) pair where nothing is merged."""
    found = rows_of(instance, row)
    return found.singles() if not instance.transport.merges else found


def net(
    rows: Rows, loads: Ints | Floats, unit_of_gpu: Ints, num_slots: int, price: Floats, rate: Floats, cap: Floats,
    seats: Seats,
) -> Net:  # fmt: skip
    """`Net` of E experts and ``S - E`` empty slots."""
    num_experts = len(loads)
    line, place = np.nonzero(rows.sets >= 0)
    member = rows.sets[line, place]
    start = np.concatenate([[0], np.cumsum(np.bincount(line, minlength=len(rows.sets)))])
    order = np.argsort(member, kind="stable")
    first = np.searchsorted(member[order], np.arange(num_slots + 1))
    home = np.where(rows.source >= 0, unit_of_gpu[rows.source], -1)
    every = np.zeros(num_slots, dtype=np.float64)
    every[:num_experts] = loads
    whole = np.int64
    return Net(
        start.astype(whole), member.astype(whole), rows.weight.astype(whole), home.astype(whole), first.astype(whole),
        line[order].astype(whole), every, price, rate, cap, *seats,
    )  # fmt: skip


def prices(instance: CollocationInstance, units: Ints) -> Floats:
    """(U,) copies to a unit for each token that touches it: sources outside of it."""
    inside = np.bincount(units).astype(np.float64)
    if instance.pairs is not None or instance.source is not None:
        return np.ones(len(inside))
    return (instance.num_gpus - inside) / instance.num_gpus


def caps(instance: CollocationInstance, units: Ints, loads: Ints) -> Floats:
    """(U,) most load of a unit."""
    inside = np.bincount(units).astype(np.float64)
    if instance.max_imbalance is None:
        return np.full(len(inside), np.inf)
    return instance.max_imbalance * float(loads.sum()) * inside / instance.num_gpus


def seats(instance: CollocationInstance, units: Ints, loads: Ints, *, capped: bool) -> Seats:
    """(G,) slots of GPUs unit by unit, (U + 1,) where those of a unit begin, and the most load of a GPU.

    Nothing where GPUs are not capped, or each is a unit, which `caps` holds already.
    """
    if not capped or instance.max_imbalance is None or len(np.unique(units)) == instance.num_gpus:
        return np.zeros(0, np.int64), np.zeros(1, np.int64), np.full(1, np.inf)
    order = np.argsort(units, kind="stable")
    seat = np.concatenate([[0], np.cumsum(np.bincount(units))]).astype(np.int64)
    top = instance.max_imbalance * float(loads.sum()) / instance.num_gpus * (1 + ROUNDING)
    return instance.slots[order].astype(np.int64), seat, np.array([top])


def timed(found: Net, rate: Floats) -> Net:
    """The same net with times (U,) that a copy adds to a unit: copies decide between plans that are about as fast.

    Times are given so that the longest of the start is 1: all copies together then count as `COPIES` of it at most.
    """
    one = found.price.mean() * len(rate)
    return found._replace(rate=rate, price=found.price * (COPIES * rate.mean() / one if one else 0.0))


def layer_net(instance: CollocationInstance, row: int, rate: Floats | None = None, *, capped: bool = False) -> Net:
    """The net of one layer; `capped`: no swap may bring a GPU above the load cap, not only its unit."""
    units, loads = search_units(instance), loads_of(instance, row)
    price = prices(instance, units)
    found = net(
        search_rows(instance, row), loads, units, instance.num_slots, price, np.zeros(len(price)),
        caps(instance, units, loads), seats(instance, units, loads, capped=capped),
    )  # fmt: skip
    return found if rate is None else timed(found, rate)
