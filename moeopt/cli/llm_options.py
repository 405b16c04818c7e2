"""Options that say which layers an LLM has: those that name it, or the layers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.llms import LLM, WhichLlm
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.engines.layers import LayerFacts


@dataclass(frozen=True)
class Llm(WhichLlm):
    """Layers of the LLM: by its configuration or name, or their number and the dense ones."""

    layers_total: Annotated[
        int | None,
        typer.Option("--layers-total", min=1, help="Number of layers, dense ones included.", rich_help_panel=LLM),
    ] = None
    dense: Annotated[
        str | None,
        typer.Option("--dense", help="Ids of layers without experts, as 0,1,2 or 0-2; or none.", rich_help_panel=LLM),
    ] = None
    mtp: Annotated[
        int | None,
        typer.Option("--mtp", min=0, help="Number of draft layers (multi-token prediction).", rich_help_panel=LLM),
    ] = None

    def named(self) -> str | None:
        """The configuration or the name, where one was given."""
        return self.hf_config if self.hf_config is not None else self.llm

    def layer_facts(self, known: Any = None, experts: int | None = None) -> LayerFacts | None:
        """The facts of the options, else those `known` already; ``None`` where there are none at all.

        Raises
        ------
        InstanceError
            An option contradicts the config, or cannot be understood; all of them at once.
        """
        from moeopt.cli import units
        from moeopt.engines.layers import LayerFacts

        check = Violations()
        name = self.named()
        base = LayerFacts.of(known if name is None else self.facts())
        config = "the plan" if name is None else name
        dense: tuple[int, ...] | None = None
        if self.dense is not None:
            text = self.dense.strip()
            dense = () if text in ("", "none") else tuple(sorted(units.ids("--dense", text, check)))
        given = {
            "--layers-total": (self.layers_total, base.layers),
            "--dense": (dense, base.dense),
            "--mtp": (self.mtp, base.mtp or None),
            "--experts": (experts, base.experts),
        }
        for option, (value, said) in given.items():
            if value is not None and said is not None and value != said:
                shown = ",".join(map(str, said)) if isinstance(said, tuple) else said
                rule = f"contradicts {config}, which says {shown or 'none'}"
                check.add(option, str(value), rule=rule, fix="Leave one of them out")
        check.raise_if_any()
        merged: dict[str, Any] = {
            "layers": base.layers if self.layers_total is None else self.layers_total,
            "dense_layers": base.dense if dense is None else dense,
            "mtp_layers": base.mtp if self.mtp is None else self.mtp,
            "experts": base.experts if experts is None else experts,
            "name": base.name,
        }
        found = LayerFacts.of(merged)
        return None if found == LayerFacts() else found
