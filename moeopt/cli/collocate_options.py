"""Options of collocate: the cluster, the transport, rules of the plan, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.options import SOLVING
from moeopt.errors import Violations
from moeopt.limits import Limits

CLUSTER, RULES = "Cluster and transport", "Rules of the plan"


@dataclass(frozen=True)
class Where:
    """The GPUs, and how tokens reach their experts."""

    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME|FILE",
            help="A reference cluster (4x8-h100; see moeopt info clusters) or a topology file.",
            rich_help_panel=CLUSTER,
        ),
    ] = None
    nodes: Annotated[
        int | None, typer.Option("--nodes", help="Without a cluster: equal nodes.", rich_help_panel=CLUSTER)
    ] = None
    gpus: Annotated[
        int | None, typer.Option("--gpus", help="Without a cluster: GPUs in all.", rich_help_panel=CLUSTER)
    ] = None
    transport: Annotated[
        str,
        typer.Option(
            "--transport",
            help="deepep-normal, deepep-ll, nvl-domain, allgather or custom (with --merge).",
            rich_help_panel=CLUSTER,
        ),
    ] = "deepep-normal"
    merge: Annotated[
        str | None,
        typer.Option("--merge", help="custom: node, gpu, rail or none is merged.", rich_help_panel=CLUSTER),
    ] = None
    hidden: Annotated[
        int | None, typer.Option("--hidden", help="Elements of a token (7168).", rich_help_panel=CLUSTER)
    ] = None
    batch_tokens: Annotated[
        float | None,
        typer.Option("--batch-tokens", help="Tokens of a GPU in a step (4096).", rich_help_panel=CLUSTER),
    ] = None
    step: Annotated[
        str | None,
        typer.Option(
            "--step", help="Time of a whole step, as 80ms: says what a gain is worth.", rich_help_panel=CLUSTER
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Of the instance."""
        from moeopt.collocation import Transport

        check = Violations()
        way: Any = self.transport
        if self.transport == "custom" and self.merge is not None:
            with check.within():
                way = Transport("custom", self.merge)
        elif self.transport == "custom":
            check.add("--merge", "missing", rule="is needed with custom", fix="Use node, gpu, rail or none")
        elif self.merge is not None:
            rule = f"is for --transport custom; {self.transport} says it itself"
            check.add("--merge", self.merge, rule=rule, fix="Leave it out")
        step_s = None if self.step is None else units.seconds("--step", self.step, check)
        cluster = None
        if self.cluster is not None:
            with check.within():
                cluster = find_cluster(self.cluster)
        check.raise_if_any()
        return {
            "cluster": cluster,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "transport": way,
            "hidden": self.hidden,
            "batch_tokens": self.batch_tokens,
            "step_s": step_s,
        }


def find_cluster(name: str) -> Any:
    """A cluster from a topology file, or a reference cluster by name."""
    from pathlib import Path

    from moeopt.cluster import read_topology, reference
    from moeopt.errors import InstanceError, Violation

    if not Path(name).exists():
        return reference(name)
    found = read_topology(name)
    if not hasattr(found, "gpus"):
        rule = "says no GPUs"
        raise InstanceError(
            [Violation("--cluster", "", name, rule, "Build it: moeopt inspect FILE --machine h100 -o c.json")]
        )
    return found


@dataclass(frozen=True)
class PlanRules:
    """What a plan has to keep."""

    slots: Annotated[
        int | None, typer.Option("--slots", help="Slots of all GPUs; few as needed.", rich_help_panel=RULES)
    ] = None
    fill: Annotated[
        str, typer.Option("--fill", help="all: spare slots get replicas; at_most.", rich_help_panel=RULES)
    ] = "all"
    replica_rule: Annotated[
        str, typer.Option("--replica-rule", help="nearest, home_node or even.", rich_help_panel=RULES)
    ] = "nearest"
    objective: Annotated[
        str, typer.Option("--objective", help="auto, time, copies or tokens.", rich_help_panel=RULES)
    ] = "auto"
    max_imbalance: Annotated[
        float | None,
        typer.Option("--max-imbalance", help="Most tokens of a GPU over the mean: 1.1.", rich_help_panel=RULES),
    ] = None
    groups: Annotated[
        int | None, typer.Option("--groups", help="Group-limited routing: groups of experts.", rich_help_panel=RULES)
    ] = None
    top_groups: Annotated[
        int | None, typer.Option("--top-groups", help="Groups that a token may use.", rich_help_panel=RULES)
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Of the instance."""
        return {
            "slots": self.slots,
            "fill": self.fill,
            "replica_rule": self.replica_rule,
            "objective": self.objective,
            "max_imbalance": self.max_imbalance,
            "groups": self.groups,
            "top_groups": self.top_groups,
        }


@dataclass(frozen=True)
class Pace:
    """Limits of a solve."""

    time_limit: Annotated[
        str | None, typer.Option("--time-limit", help="Stop after 5s, 500ms; none by default.", rich_help_panel=SOLVING)
    ] = None
    iterations: Annotated[
        int | None, typer.Option("--iterations", help="Swaps from each start.", rich_help_panel=SOLVING)
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the search.", rich_help_panel=SOLVING)] = 0

    def limits(self) -> Limits:
        """Check and build the limits."""
        check = Violations()
        time_s = None if self.time_limit is None else units.seconds("--time-limit", self.time_limit, check)
        check.raise_if_any()
        return Limits(time_s, None, self.iterations)
