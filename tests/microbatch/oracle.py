"""The least time over all orders of service, by trying them."""

from __future__ import annotations

from moeopt.microbatch.graph import Number, StageGraph


def least_time(graph: StageGraph) -> Number:
    """Append items to their resources in every order that precedence allows; prune what is no better.

    Every schedule without needless waiting arises from some order, so the least of them is the optimum.
    """
    durations, after, resource = graph.durations, graph.after, [graph.resource(i) for i in range(graph.num_items)]
    waits = list(graph.num_before)
    ready: list[Number] = [0] * graph.num_items
    free: list[Number] = [0] * len(graph.lap.resources)
    best: list[Number] = [sum(durations)]
    tails = [durations[item] for item in range(graph.num_items)]
    for item in reversed(range(graph.num_items)):
        tails[item] = durations[item] + max((tails[other] for other in after[item]), default=0)

    def go(eligible: list[int], done: int, latest: Number) -> None:
        if done == graph.num_items:
            best[0] = min(best[0], latest)
            return
        for item in eligible:
            if any(max(ready[one], free[resource[one]]) + tails[one] >= best[0] for one in eligible):
                return
            start = max(ready[item], free[resource[item]])
            end = start + durations[item]
            kept_free, kept_ready = free[resource[item]], [ready[other] for other in after[item]]
            free[resource[item]] = end
            rest = [one for one in eligible if one != item]
            for other in after[item]:
                waits[other] -= 1
                ready[other] = max(ready[other], end)
                if waits[other] == 0:
                    rest.append(other)
            go(rest, done + 1, max(latest, end))
            free[resource[item]] = kept_free
            for other, before in zip(after[item], kept_ready, strict=True):
                waits[other] += 1
                ready[other] = before

    go([item for item, count in enumerate(waits) if count == 0], 0, 0)
    return best[0]
