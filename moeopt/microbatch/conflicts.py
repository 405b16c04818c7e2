"""Limits that cannot be kept, with the best that is possible."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from moeopt.microbatch import bounds, verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.times import exact


def conflicts(instance: MicrobatchInstance) -> list[dict[str, Any]]:
    """Limits that no candidate keeps in any order of service, as far as that is certified."""
    fitting = [one for one in instance.candidates if verify.fits_memory(instance, one)]
    if not fitting:
        return [memory_conflict(instance)]
    if instance.tbt_slo_s is None:
        return []
    limit = exact(instance.tbt_slo_s)
    if any(bounds.bound(instance, one).seconds <= limit for one in fitting):
        return []
    return [tbt_conflict(instance, {})]


def memory_conflict(instance: MicrobatchInstance) -> dict[str, Any]:
    """The smallest batch does not fit."""
    assert instance.bytes_per_sequence is not None and instance.memory_bytes is not None
    least = min(one.batch for one in instance.candidates)
    need = least * instance.bytes_per_sequence
    room = int(instance.memory_bytes // instance.bytes_per_sequence)
    message = (
        f"the smallest batch, {least}, needs {need:.6g} bytes, memory_bytes is {instance.memory_bytes:.6g}: "
        f"room for {room} sequences"
    )
    return {"rule": "memory_bytes", "message": message, "shortfall": need - instance.memory_bytes, "best": need}


def tbt_conflict(instance: MicrobatchInstance, claims: Mapping[Candidate, Fraction]) -> dict[str, Any]:
    """The limit on the time of a step is below what any candidate can do, by what is proved or claimed of each."""
    assert instance.tbt_slo_s is not None
    floors = [
        (max(bounds.bound(instance, one).seconds, claims.get(one, Fraction(0))), one.m, one.batch)
        for one in instance.candidates
        if verify.fits_memory(instance, one)
    ]
    least, m, batch = min(floors)
    return below(instance, float(least), m, batch)


def below(instance: MicrobatchInstance, best: float, m: int, batch: int) -> dict[str, Any]:
    """The limit is below `best` seconds, which a candidate has."""
    slo = instance.tbt_slo_s
    assert slo is not None
    message = (
        f"tbt_slo_s = {slo:.6g} s is below the best possible in any order, {best:.6g} s "
        f"with m = {m} and a batch of {batch}"
    )
    return {"rule": "tbt_slo_s", "message": message, "shortfall": best - slo, "best": best}
