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

    found, order = [], {nic: place for place, nic in enumerate(cluster.nics)}
    for gpu in cluster.gpus:
        cost = {name: far for name, far in Routes(cluster.graph, gpu, order).cost.items() if name in order}
        least = min(cost.values(), default=0)
        found.append(tuple(sorted((nic for nic in cost if cost[nic] == least), key=order.__getitem__)))
    return tuple(found)


def nics_per_gpu(cluster: Cluster) -> float:
    """Ports that are the nearest of some GPU, over GPUs; ports for storage and management do not count.

    >>> from moeopt.cluster import reference
    >>> nics_per_gpu(reference("aws-p5")), nics_per_gpu(reference("aws-p4d"))
    (4.0, 0.5)
    """
    used = {nic for near in nearest_nics(cluster) for nic in near}
    return len(used) / cluster.num_gpus if cluster.num_gpus else 0.0


def across_sockets(cluster: Cluster) -> bool:
    """Whether every GPU that reaches a port crosses a link between sockets to its nearest ones.

    >>> from moeopt.cluster import reference
    >>> across_sockets(reference("aws-p5"))
    False
    """
    near = nearest_nics(cluster)
    return not any(_within_socket(cluster, gpu, set(ports)) for gpu, ports in zip(cluster.gpus, near, strict=True))


def _within_socket(cluster: Cluster, gpu: str, ports: set[str]) -> bool:
    from moeopt.cluster.paths import Routes

    routes = Routes(cluster.graph, gpu, ports) if ports else None
    for port in ports:
        assert routes is not None
        if all(cluster.graph[one][other]["kind"] != "smp" for one, other in routes.edges(port)):
            return True
    return False
