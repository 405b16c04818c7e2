"""Why a collocation takes its time: cuts, links and free routes, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.say import Say

if TYPE_CHECKING:
    from moeopt.collocation import CollocationInstance

SHOWN = 20
"""Links in the table without -v."""


def show_explained(instance: CollocationInstance, plan: Any, say: Say) -> None:
    """Tables of the layer that takes longest."""
    from moeopt.cli.tables import table
    from moeopt.collocation import explain
    from moeopt.report.words import seconds as duration

    found = explain(instance, plan)
    cuts = table("", f"cut around unit, layer {found['layer']}", "MB", "GB/s", "time")
    for row in found["cuts"]:
        cells = (f"{row['bytes'] / 1e6:,.2f}", f"{row['bytes_per_s'] / 1e9:,.4g}", duration(row["seconds"]))
        cuts.add_row(str(row["unit"]), *cells)
    say.show(cuts)
    routes = found["free_routes"]
    free = {row["link"]: row["free_s"] for row in routes.get("links", ())}
    links = table("", "link, way out", "kind", "MB", "GB/s", "fixed paths", *(["free routes"] if free else []))
    shown = found["links"] if say.verbose else found["links"][:SHOWN]
    for row in shown:
        cells = (f"{row['bytes'] / 1e6:,.2f}", f"{row['bytes_per_s'] / 1e9:,.4g}", duration(row["seconds"]))
        links.add_row(row["link"], row["kind"], *cells, *([duration(free.get(row["link"], 0.0))] if free else []))
    say.show(links)
    if len(found["links"]) > len(shown):
        say.note(f"{len(found['links']) - len(shown):,} more links, -v shows them")
    for name, text in route_lines(routes):
        say.show(f"{name:<12} {text}")


def route_lines(routes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and text: what the busiest link takes by fixed paths, by free routes, and with GPUs that pass on."""
    from moeopt.report.words import seconds as duration

    lines = [
        (
            "fixed paths",
            f"{duration(routes['fixed_s'])} busiest link, out and back: least-cost paths, what is minimised",
        )
    ]
    if "why_not" in routes:
        return [*lines, ("free routes", f"not looked at: {routes['why_not']}")]
    for name, said in (("free", "any routes, GPUs pass nothing on"), ("forwarding", "any routes, GPUs pass on too")):
        value, bound = routes[f"{name}_s"], routes[f"{name}_lower_bound_s"]
        label = "free routes" if name == "free" else "forwarding"
        lines.append((label, f"{duration(value)} busiest link, out and back: {said}; proved >= {duration(bound)}"))
    return lines
