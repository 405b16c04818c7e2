"""Network ports as GPUs see them: which are nearest, and how many GPUs share one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster


def nearest_nics(cluster: Cluster) -> tuple[tuple[str, ...], ...]:
    """For each GPU the ports that its least-cost routes to the network lead to; none where it reaches no port.

    >>> from moeopt.cluster import reference
    >>> nearest_nics(reference("a100"))[:3]
    (('nic0.0', 'nic0.1'), ('nic0.0', 'nic0.1'), ('nic0.2', 'nic0.3'))
    """
    from moeopt.cluster.paths import Routes

    found = []
    for gpu in cluster.gpus:
        cost = Routes(cluster.graph, gpu).cost
        near = [nic for nic in cluster.nics if nic in cost]
        least = min((cost[nic] for nic in near), default=0)
        found.append(tuple(nic for nic in near if cost[nic] == least))
    return tuple(found)


def nics_per_gpu(cluster: Cluster) -> float:
    """Ports that are the nearest of some GPU, over GPUs; ports for storage and management do not count.

    >>> from moeopt.cluster import reference
    >>> nics_per_gpu(reference("aws-p5")), nics_per_gpu(reference("aws-p4d"))
    (4.0, 0.5)
    """
    used = {nic for near in nearest_nics(cluster) for nic in near}
    return len(used) / cluster.num_gpus if cluster.num_gpus else 0.0
