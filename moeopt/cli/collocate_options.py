"""Options of collocate and of comparing collocations: the cluster, the transport, rules of the plan, and limits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.options import SOLVING
from moeopt.cli.pace import TimeLimit, time_s
from moeopt.errors import Violations
from moeopt.limits import Limits

CLUSTER, RULES = "Cluster and transport", "Rules of the plan"


@dataclass(frozen=True)
class Travel:
    """How tokens reach their experts, and the tokens."""

    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            metavar="NAME|FILE,...",
            help="A reference cluster (4x8-h100; see moeopt info clusters), a topology file, one of each server (with "
            "commas, or given repeatedly), or a rank-cost matrix, which says the nodes alone.",
            rich_help_panel=CLUSTER,
        ),
    ] = None
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport",
            help="deepep-normal (default: merges by node), nvl-domain (by GPU), deepep-ll (nothing), custom (as "
            "--merge says), or allgather, which no plan helps.",
            rich_help_panel=CLUSTER,
        ),
    ] = None
    merge: Annotated[
        str | None,
        typer.Option("--merge", help="custom: node, gpu, rail or none is merged.", rich_help_panel=CLUSTER),
    ] = None
    hidden: Annotated[
        int | None, typer.Option("--hidden", help="Elements of a token (7168).", rich_help_panel=CLUSTER)
    ] = None
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            help="With a cluster: time of a whole step, as 80ms, which says what a gain is worth.",
            rich_help_panel=CLUSTER,
        ),
    ] = None
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="FILE[:KEY]",
            help="GPU of each token of the trace (.npy, .npz, .csv, .json), or :KEY for an array or key of the trace "
            "itself; source in the trace is taken by itself.",
            rich_help_panel=CLUSTER,
        ),
    ] = None
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs",
            help="TRACE has counts of experts selected together (layers x experts x experts; .npy, .npz, .csv, .json): "
            "pairs apart are minimised, an approximation of copies.",
            rich_help_panel=CLUSTER,
        ),
    ] = False
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            help="Share of the tokens, the last ones, that plans are only scored on (0.5).",
            rich_help_panel=CLUSTER,
        ),
    ] = None

    def given(self) -> list[str]:
        """The options that were given, as they are typed."""
        return [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name) != one.default]

    def arguments(self) -> dict[str, Any]:
        """Of the instance, but the trace and what belongs to it."""
        from moeopt.collocation import Transport

        check = Violations()
        way: Any = self.transport or "deepep-normal"
        if way == "custom" and self.merge is not None:
            with check.within():
                way = Transport("custom", self.merge)
        elif way == "custom":
            check.add("--merge", "missing", rule="is needed with custom", fix="Use node, gpu, rail or none")
        elif self.merge is not None:
            rule = f"is for --transport custom; {way} says it itself"
            check.add("--merge", self.merge, rule=rule, fix="Leave it out")
        step_s = None if self.step is None else units.seconds("--step", self.step, check)
        cluster = None
        if self.cluster is not None:
            with check.within():
                names = [part for given in self.cluster for part in given.split(",") if part]
                cluster = find_cluster(names, costs=True)
        check.raise_if_any()
        return {
            "cluster": cluster,
            "transport": way,
            "hidden": self.hidden,
            "step_s": step_s,
        }


@dataclass(frozen=True)
class Where(Travel):
    """The GPUs too."""

    nodes: Annotated[
        int | None, typer.Option("--nodes", help="Without a cluster: equal nodes.", rich_help_panel=CLUSTER)
    ] = None
    gpus: Annotated[
        int | None, typer.Option("--gpus", help="Without a cluster: GPUs in all.", rich_help_panel=CLUSTER)
    ] = None
    batch_tokens: Annotated[
        float | None,
        typer.Option("--batch-tokens", help="Tokens of a GPU in a step (4096).", rich_help_panel=CLUSTER),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Of the instance, but the trace and what belongs to it."""
        own = {"nodes": self.nodes, "gpus": self.gpus, "batch_tokens": self.batch_tokens}
        return {**super().arguments(), **own}


def find_cluster(names: list[str], *, costs: bool = False) -> Any:
    """A cluster from a topology file, from one file of each server, or a reference cluster by name.

    With `costs` also a rank-cost matrix, as it is.
    """
    from pathlib import Path

    from moeopt.cluster import read_topology, reference
    from moeopt.errors import InstanceError, Violation

    if len(names) == 1 and not Path(names[0]).exists():
        return reference(names[0])
    check = Violations()
    for name in names:
        if not Path(name).exists():
            rule = "is no file, and several are one of each server"
            check.add("--cluster", name, rule=rule, fix="Check the name, or give one reference cluster alone")
    check.raise_if_any()
    found = read_topology(names)
    if not hasattr(found, "gpus") and not (costs and found.cost is not None):
        rule = f"({found.form}) says no GPUs"
        fix = f"Build it: moeopt inspect {names[0]} --machine h100 -o c.json"
        if found.graph is None:
            fix = "Give nvidia-smi topo -m or an NCCL topology: a matrix has no links"
        raise InstanceError([Violation("--cluster", "", ", ".join(names), rule, fix)])
    return found


@dataclass(frozen=True)
class Sharing:
    """What a plan has to keep, beyond what placements know too."""

    replica_rule: Annotated[
        str | None,
        typer.Option("--replica-rule", help="nearest (default), home_node or even.", rich_help_panel=RULES),
    ] = None
    objective: Annotated[
        str | None, typer.Option("--objective", help="auto (default), time, copies or tokens.", rich_help_panel=RULES)
    ] = None
    max_imbalance: Annotated[
        float | None,
        typer.Option(
            "--max-imbalance",
            help="Most tokens of a GPU over the mean, as 1.3; no cap by default.",
            rich_help_panel=RULES,
        ),
    ] = None
    top_groups: Annotated[
        int | None, typer.Option("--top-groups", help="Groups that a token may use.", rich_help_panel=RULES)
    ] = None

    def given(self) -> list[str]:
        """The options that were given, as they are typed."""
        return [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name) != one.default]

    def arguments(self) -> dict[str, Any]:
        """Of the instance."""
        return {
            "replica_rule": self.replica_rule or "nearest",
            "objective": self.objective or "auto",
            "max_imbalance": self.max_imbalance,
            "top_groups": self.top_groups,
        }


@dataclass(frozen=True)
class PlanRules(Sharing):
    """Slots too."""

    slots: Annotated[
        int | None,
        typer.Option(
            "--slots", help="Slots of all GPUs; by default as few as hold all experts.", rich_help_panel=RULES
        ),
    ] = None
    fill: Annotated[
        str,
        typer.Option(
            "--fill", help="all: spare slots get replicas; at_most: they may be empty.", rich_help_panel=RULES
        ),
    ] = "all"
    groups: Annotated[
        int | None, typer.Option("--groups", help="Group-limited routing: groups of experts.", rich_help_panel=RULES)
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Of the instance."""
        return {**super().arguments(), "slots": self.slots, "fill": self.fill, "groups": self.groups}


@dataclass(frozen=True)
class Pace:
    """Limits of a solve."""

    time_limit: TimeLimit = None
    iterations: Annotated[
        int | None, typer.Option("--iterations", help="Swaps from each start (3000).", rich_help_panel=SOLVING)
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the search.", rich_help_panel=SOLVING)] = 0

    def limits(self) -> Limits:
        """Check and build the limits."""
        return Limits(time_s(self.time_limit), None, self.iterations)
