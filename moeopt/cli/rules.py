"""Options of the further rules of a placement: windows, the running plan, failures, prices, shared experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import units
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.cost.floor import Floor

RUNNING, FAILURE, PRICES, WINDOWS = "Running plan", "Failure", "Prices and shared experts", "Windows"


@dataclass(frozen=True)
class FurtherRules:
    """Rules that a table of loads may get beside its shape."""

    combine: Annotated[
        str | None,
        typer.Option("--combine", help="Several windows: worst (default), mean or cvar.", rich_help_panel=WINDOWS),
    ] = None
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", help="cvar: mean of the worst 1 - alpha windows (0.9).", rich_help_panel=WINDOWS),
    ] = None
    current: Annotated[
        str | None,
        typer.Option(
            "--current",
            metavar="FILE",
            help="The running plan: a plan, an engine's map, or its slot table (JSON, NPY, CSV).",
            rich_help_panel=RUNNING,
        ),
    ] = None
    max_moves: Annotated[
        str | None,
        typer.Option(
            "--max-moves",
            help="Most (expert, GPU) pairs that may be new, as 64 or 10% of slots.",
            rich_help_panel=RUNNING,
        ),
    ] = None
    max_moves_per_layer: Annotated[
        int | None, typer.Option("--max-moves-per-layer", help="The same, in each layer.", rich_help_panel=RUNNING)
    ] = None
    move_cost: Annotated[
        float | None,
        typer.Option("--move-cost", help="Tokens that moving one replica is worth.", rich_help_panel=RUNNING),
    ] = None
    lost: Annotated[str | None, typer.Option("--lost", help="GPUs that died, as 5,9.", rich_help_panel=FAILURE)] = None
    lost_nodes: Annotated[
        str | None, typer.Option("--lost-nodes", help="Nodes that died, as 1.", rich_help_panel=FAILURE)
    ] = None
    retire: Annotated[
        str | None,
        typer.Option("--retire", help="GPUs to be emptied; they can still be read from.", rich_help_panel=FAILURE),
    ] = None
    min_replicas: Annotated[
        str | None,
        typer.Option("--min-replicas", help="Least replicas of every expert, or E numbers.", rich_help_panel=FAILURE),
    ] = None
    survive_nodes: Annotated[
        int | None,
        typer.Option(
            "--survive-nodes", help="Nodes that may fail without an expert being lost.", rich_help_panel=FAILURE
        ),
    ] = None
    c_slot: Annotated[
        str | None, typer.Option("--c-slot", help="Seconds a slot costs in a pass, as 3us.", rich_help_panel=PRICES)
    ] = None
    c_tok: Annotated[
        str | None, typer.Option("--c-tok", help="Seconds a token costs, as 0.1us.", rich_help_panel=PRICES)
    ] = None
    token_bytes: Annotated[
        str | None, typer.Option("--token-bytes", help="Bytes of one token, as 14kB.", rich_help_panel=PRICES)
    ] = None
    recv_bytes_per_s: Annotated[
        str | None,
        typer.Option(
            "--recv-bytes-per-s", help="Bytes a second a GPU receives, one size or G.", rich_help_panel=PRICES
        ),
    ] = None
    floor_gpu: Annotated[
        str | None,
        typer.Option("--floor-gpu", help="Compute the floor for this GPU, as H800.", rich_help_panel=PRICES),
    ] = None
    floor_dtype: Annotated[
        str | None,
        typer.Option("--floor-dtype", help="Weights and arithmetic: bf16, fp8, int8, fp4.", rich_help_panel=PRICES),
    ] = None
    shared: Annotated[
        str | None,
        typer.Option("--shared", help="Shared experts: replicated, fused or hosted.", rich_help_panel=PRICES),
    ] = None
    num_shared: Annotated[
        int | None, typer.Option("--num-shared", help="Number of shared experts (1).", rich_help_panel=PRICES)
    ] = None
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Routed experts a token selects.", rich_help_panel=PRICES)
    ] = None
    batch_tokens: Annotated[
        int | None,
        typer.Option("--batch-tokens", help="Tokens a GPU has in one step, for the noise.", rich_help_panel=PRICES),
    ] = None

    def further_fields(self, check: Violations) -> dict[str, Any]:
        """Arguments of `PlacementInstance`; `current` and lost nodes need the instance's shape and are left aside."""
        found: dict[str, Any] = {}
        plain = ("combine", "alpha", "max_moves_per_layer", "move_cost", "survive_nodes", "shared")
        for key in (*plain, "num_shared", "top_k", "batch_tokens"):
            if getattr(self, key) is not None:
                found[key] = getattr(self, key)
        if self.max_moves is not None:
            from moeopt.placement.move_budget import budget

            moves = budget(self.max_moves, check=check)
            found["max_moves"] = moves if moves is None or isinstance(moves, int) else self.max_moves
        if (self.floor_gpu is None) != (self.floor_dtype is None):
            missing, given = ("--floor-gpu", "--floor-dtype")[:: 1 if self.floor_gpu is None else -1]
            check.add(missing, "missing", rule=f"is needed beside {given}", fix="Give a GPU and a data type")
        elif self.floor_gpu is not None:
            found["floor_tokens"] = self._computed_floor(check)
        for key in ("lost", "retire"):
            if getattr(self, key) is not None:
                found[key] = units.ids(f"--{key}", getattr(self, key), check)
        if self.min_replicas is not None:
            found["min_replicas"] = units.count("--min-replicas", self.min_replicas, check)
        for key in ("c_slot", "c_tok"):
            if getattr(self, key) is not None:
                found[key] = units.seconds(f"--{key.replace('_', '-')}", getattr(self, key), check)
        if self.token_bytes is not None:
            found["token_bytes"] = units.size("--token-bytes", self.token_bytes, check)
        if self.recv_bytes_per_s is not None:
            found["recv_bytes_per_s"] = units.sizes("--recv-bytes-per-s", self.recv_bytes_per_s, check)
        return found

    def computed_floor(self) -> Floor | None:
        """The floor of ``--floor-gpu`` and ``--floor-dtype``, where they are given."""
        from moeopt.cost import floor_of

        if self.floor_gpu is None or self.floor_dtype is None:
            return None
        return floor_of(self.floor_gpu, self.floor_dtype)

    def _computed_floor(self, check: Violations) -> float:
        if getattr(self, "floor_tokens", None) is not None:
            rule = "says the same as --floor-tokens"
            check.add("--floor-gpu", self.floor_gpu, rule=rule, fix="Give one of them")
            return 0.0
        with check.within():
            floor = self.computed_floor()
            return 0.0 if floor is None else floor.tokens
        return 0.0
