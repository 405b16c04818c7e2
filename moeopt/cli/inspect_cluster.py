"""What inspect says of topology files and reference clusters, and what it draws or writes of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.options import OUTPUT
from moeopt.cli.piped import file_of
from moeopt.cli.say import count, few
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.cluster import Cluster, Described

CLUSTER_SAID, DESCRIBED_SAID = "cluster", "topology"
SAID = (CLUSTER_SAID, DESCRIBED_SAID)
ENDINGS = (".svg", ".png", ".json", ".csv")
NEVER = (".pt", ".pth", ".npz", ".parquet", ".safetensors", ".pkl")
"""Endings of files that are of engines, and may be large."""


@dataclass(frozen=True)
class Topology:
    """Options for topology files."""

    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME",
            help="Of a topology with hosts and no GPUs: what every host is, as h100; see moeopt info clusters.",
            rich_help_panel="Topology",
        ),
    ] = None
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Of one topology, or servers together: draw the graph (.svg, .png), or write the cluster (.json) or "
            "rank costs (.csv).",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.", rich_help_panel=OUTPUT)] = (
        False
    )


def read_file(path: str) -> tuple[str, Any] | None:
    """A cluster or what a topology file says, of a file or of the name of a reference cluster; else ``None``."""
    from moeopt.cluster.readers.reading import is_topology, parse_topology
    from moeopt.cluster.readers.text import MOST_BYTES

    try:
        with file_of(path) as file:
            place = Path(file)
            if file.lower().endswith(NEVER) or place.is_dir():
                return None
            if not place.exists():
                return _reference(path)
            if place.stat().st_size > MOST_BYTES:
                return None
            data = place.read_bytes()
    except OSError:
        return None  # to read it says why
    return said(parse_topology(data, path)) if is_topology(data) else None


def said(content: Cluster | Described) -> tuple[str, Any]:
    """What it is called, with it."""
    return (CLUSTER_SAID if hasattr(content, "gpus") else DESCRIBED_SAID), content


def _reference(path: str) -> tuple[str, Any] | None:
    from moeopt.cluster import machines, reference

    kind = re.sub(r"^(\d+x)?(\d+-)?", "", path.lower())
    return (CLUSTER_SAID, reference(path)) if kind in machines() else None


def together(files: Sequence[str], whats: Sequence[str]) -> Any:
    """Several files that are one of each server as one cluster; ``None`` where they are not."""
    from moeopt.cluster import read_topology

    if len(files) < 2 or any(what != CLUSTER_SAID for what in whats):
        return None
    if any(path == "-" or not Path(path).is_file() for path in files):
        return None
    try:
        return read_topology(list(files))
    except InstanceError:
        return None  # of different kinds: each was described by itself


def check_options(options: Topology, whats: Sequence[str], joined: Any = None) -> None:
    """Refuse options for topologies where there is none, or not one, before anything is shown."""
    given = [name for name, value in (("--machine", options.machine), ("--output", options.output)) if value]
    topologies = [what for what in whats if what in SAID]
    if given and (len(topologies) != 1 and (joined is None or given == ["--machine"])):
        rule = "is for a topology" if not topologies else f"is for one topology, and these are {len(topologies)}"
        raise InstanceError([Violation(given[0], "", "given", rule, "Give one topology file")])
    if options.output is not None:
        from moeopt.cli.target import check_target

        check_target(options.output, ENDINGS, options.force, what="a topology")


def on_machine(content: Any, options: Topology) -> tuple[str, Any]:
    """The cluster that hosts and a machine make."""
    if options.machine is None:
        return said(content)
    if hasattr(content, "gpus"):
        rule = "is for topologies without GPUs, and this one has them"
        raise InstanceError([Violation("--machine", "", options.machine, rule, "Leave it out")])
    return said(content.cluster(options.machine))


def facts(what: str, content: Any) -> dict[str, Any]:
    """Everything inspect says, ready for JSON."""
    faults = [{**asdict(fault), "where": list(fault.where)} for fault in content.faults()]
    if what == DESCRIBED_SAID:
        found = {"name": content.name, "form": content.form, **content.facts}
        return {**found, "faults": faults, "notes": list(content.notes)}
    from moeopt.cluster.nearest import across_sockets, nics_per_gpu

    domains = Counter(map(int, content.domain_of))
    return {
        "name": content.name,
        "gpus": content.num_gpus,
        "nodes": content.num_nodes,
        "nvlink_domains": sorted((size for size in domains.values() if size > 1), reverse=True),
        "nics": len(content.nics),
        "nics_per_gpu": nics_per_gpu(content),
        "nics_across_sockets": across_sockets(content),
        "tiers": [
            {"tier": tier.name, "groups": list(tier.sizes), "bytes_per_s": tier.bytes_per_s, "alpha_s": tier.alpha_s}
            for tier in content.tiers()
        ],
        "faults": faults,
        "notes": list(content.notes),
    }


def show(found: dict[str, Any], say: Say) -> None:
    """The same for people."""
    from moeopt.cli.spoken import spoken

    lines = [f"{found['file']}: {found['what']}" + (f" ({found['form']})" if "form" in found else "")]
    if found["what"] == CLUSTER_SAID:
        sizes = found["nvlink_domains"]
        fast = f"{count(len(sizes), 'NVLink domain')} of {_sizes(sizes, alone=True)}" if sizes else "no NVLink"
        lines.append(f"  GPUs       {found['gpus']:,} in {count(found['nodes'], 'node')}; {fast}")
        near = "the nearest, across sockets" if found["nics"] and found["nics_across_sockets"] else "the nearest"
        lines.append(f"  network    {count(found['nics'], 'port')}, {found['nics_per_gpu']:.3g} a GPU ({near})")
        for tier in found["tiers"]:
            lines.append(
                f"  tier       {tier['tier']}: groups of {_sizes(tier['groups'])}, "
                f"{tier['bytes_per_s'] / 1e9:.4g} GB/s a GPU and direction, {tier['alpha_s'] * 1e6:.3g} us"
            )
    else:
        for key, value in found.items():
            if key not in ("file", "what", "name", "form", "faults", "notes", "tiers") and value not in (None, {}, []):
                lines.append(f"  {key.replace('_', ' '):<10} {_plain(value)}")
        lines.extend(f"  tier       {_plain(tier)}" for tier in found.get("tiers", ()))
    faults = [f"  {'fault':<10} {one['kind']}: {one['text']}. {one['fix']}." for one in found["faults"]]
    lines.extend(few(faults, say.verbose) if faults else ["  faults     none found"])
    lines.extend(f"  note       {spoken(note)}" for note in found["notes"])
    say.show("\n".join(lines))


def _sizes(sizes: list[int], *, alone: bool = False) -> str:
    """Sizes of groups, equal ones together; `alone` leaves out how many where all are equal.

    >>> _sizes([8, 8, 4]), _sizes([8, 8], alone=True)
    ('2 x 8, 4', '8')
    """
    many = Counter(sizes)
    if alone and len(many) == 1:
        return str(sizes[0])
    return ", ".join(f"{times} x {size}" if times > 1 else str(size) for size, times in sorted(many.items())[::-1])


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{str(key).replace('_', ' ')} {_plain(one)}" for key, one in value.items())
    if isinstance(value, list):
        numbers = all(isinstance(one, int) for one in value)
        return _sizes(value) if numbers and len(value) > 6 else ", ".join(map(_plain, value))
    return (
        "yes" if value is True else "no" if value is False else f"{value:g}" if isinstance(value, float) else str(value)
    )


def write(content: Any, options: Topology) -> None:
    """Draw or write it, as the ending of the file says."""
    from moeopt.documents import to_json, write_file

    assert options.output is not None
    ending = Path(options.output).suffix.lower()
    made: str | bytes
    if ending in (".svg", ".png"):
        from moeopt.report.plots.cluster import cluster_png, cluster_svg

        if content.graph is None:
            raise _not_for(options.output, content, "has no links to draw")
        made = cluster_svg(content) if ending == ".svg" else cluster_png(content)
    elif hasattr(content, "gpus"):
        made = to_json(content.to_dict()) + "\n" if ending == ".json" else _csv(content.rank_cost())
    elif ending == ".csv" and content.cost is not None:
        made = _csv(content.cost)
    else:
        raise _not_for(options.output, content, "is no cluster: it has no GPUs or no bandwidths")
    write_file(options.output, made, force=options.force)


def _csv(cost: Any) -> str:
    return "".join(",".join(json.dumps(float(cell)) for cell in row) + "\n" for row in cost)


def _not_for(output: str, content: Any, rule: str) -> InstanceError:
    fix = "Name its hosts' machine with --machine" if content.graph is not None else "Leave --output out"
    return InstanceError([Violation("--output", "", output, f"{content.form} {rule}", fix)])
