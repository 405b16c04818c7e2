"""Seconds of a layer's copies on the link graph: the busiest link, and both stages with and without overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.paths import Paths

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance
    from moeopt.collocation.verify import Counts

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Traffic:
    """Copies (G, G) from GPU to GPU on the way out, times ``sources``: between nodes, and within; diagonals 0."""

    away: Ints
    within: Ints


def traffic(instance: CollocationInstance, counts: Counts) -> Traffic:
    """Copies from GPU to GPU: the way back is the transpose.

    With ``node`` a copy lands on the GPU whose index in its node is that of the source (modulo its size), and is handed
    on from there.
    """
    num_gpus, group, merge = instance.num_gpus, instance.landing, instance.transport.merge
    away, within = np.zeros((num_gpus, num_gpus), np.int64), np.zeros((num_gpus, num_gpus), np.int64)
    same = group[:, None] == group[None, :]
    if merge in ("gpu", "none"):
        table = counts.pairs if merge == "none" else counts.touched_gpu
        away[:], within[:] = np.where(same, 0, table), np.where(same, table, 0)
        np.fill_diagonal(within, 0)
        return Traffic(away, within)
    for node in range(int(group.max()) + 1):
        members = np.flatnonzero(group == node)
        for source in range(num_gpus):
            at = source if group[source] == node else members[instance.place_in_node[source] % len(members)]
            each = (counts.touched_gpu if merge == "node" else counts.pairs)[source, members]
            if at != source:
                away[source, at] += counts.touched_node[source, node] if merge == "node" else each.sum()
            within[at, members] += each
    np.fill_diagonal(within, 0)
    return Traffic(away, within)


def paths_of(instance: CollocationInstance) -> Paths:
    """The paths of the instance's cluster, kept with it."""
    if "_paths" not in instance.__dict__:
        assert instance.cluster is not None
        instance.__dict__["_paths"] = Paths(instance.cluster)
    found: Paths = instance.__dict__["_paths"]
    return found


def scale(instance: CollocationInstance, counts: Counts) -> float:
    """What a count of the tables is in a step of ``batch_tokens`` a GPU."""
    return instance.batch_tokens * instance.num_gpus / (counts.tokens * counts.sources)


def busiest(instance: CollocationInstance, counts: Counts) -> float:
    """Seconds of the busiest link, dispatch and combine one after the other."""
    sent, each = traffic(instance, counts), scale(instance, counts)
    both = sent.away + sent.within
    return sum(
        _worst(instance, table) * each * size
        for table, size in zip((both, both.T), instance.transport.copy_bytes(instance.hidden), strict=True)
    )


def within_binds(instance: CollocationInstance, counts: Counts) -> bool:
    """Whether a link within a node is the busiest, and copies between nodes alone would take less."""
    sent = traffic(instance, counts)
    both = sent.away + sent.within
    return any(_worst(instance, a) < _worst(instance, b) for a, b in ((sent.away, both), (sent.away.T, both.T)))


def _worst(instance: CollocationInstance, table: Ints) -> float:
    """Most copies over bytes/s of a link."""
    paths = paths_of(instance)
    loads = paths.loads(table)
    return float((loads / np.array(paths.bytes_per_s)[: len(loads)]).max(initial=0.0))


def stages(instance: CollocationInstance, counts: Counts) -> dict[str, Any]:
    """Seconds of the network and of the fabric within nodes, dispatch and combine together, and of both.

    Returns
    -------
    dict
        ``network_s``, ``fabric_s``, with latencies (one message a peer), ``no_overlap_s`` their sum and ``overlap_s``
        their maximum, phase by phase.
    """
    sent, each, paths = traffic(instance, counts), scale(instance, counts), paths_of(instance)
    network = fabric = both = larger = 0.0
    for turn, size in enumerate(instance.transport.copy_bytes(instance.hidden)):
        away, within = (sent.away, sent.within) if turn == 0 else (sent.away.T, sent.within.T)
        a, b = (
            _worst(instance, table) * each * size + int((table > 0).sum(axis=1).max(initial=0)) * paths.alpha(table)
            for table in (away, within)
        )
        network, fabric, both, larger = network + a, fabric + b, both + a + b, larger + max(a, b)
    return {"network_s": network, "fabric_s": fabric, "no_overlap_s": both, "overlap_s": larger}


def link_table(instance: CollocationInstance, counts: Counts, most: int | None = 12) -> list[dict[str, Any]]:
    """The busiest links on the way out: name, kind, bytes and seconds in a step."""
    sent, each, paths = traffic(instance, counts), scale(instance, counts), paths_of(instance)
    size = instance.transport.copy_bytes(instance.hidden)[0]
    loads = paths.loads(sent.away + sent.within) * each * size
    seconds = loads / np.array(paths.bytes_per_s)[: len(loads)]
    order = np.argsort(-seconds, kind="stable")[:most]
    return [
        {
            "link": paths.names[link],
            "kind": paths.kinds[link],
            "bytes": float(loads[link]),
            "bytes_per_s": paths.bytes_per_s[link],
            "seconds": float(seconds[link]),
        }
        for link in order
        if loads[link] > 0
    ]
