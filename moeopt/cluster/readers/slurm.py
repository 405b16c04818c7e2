"""Slurm's ``topology.conf`` (trees and blocks) and ``topology.yaml``, and topograph's model of a fabric."""

from __future__ import annotations

import re
from typing import Any

from moeopt.cluster.described import Described
from moeopt.cluster.readers.hostlist import expand
from moeopt.cluster.readers.slurm_tree import Switches, describe
from moeopt.cluster.readers.text import refuse, whole
from moeopt.cluster.readers.yaml_lists import read_lists
from moeopt.errors import Violations

KEYS = ("switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes")


def read_conf(text: str, source: str, name: str) -> Described:
    """A ``topology.conf``.

    Raises
    ------
    InstanceError
        A line that is none of Slurm's, a name twice, a host list that cannot be read; all at once.

    >>> tree = "SwitchName=s0 Nodes=n[1-2]\\nSwitchName=s1 Nodes=n3\\nSwitchName=top Switches=s[0-1]"
    >>> found = read_conf(tree, "", "t")
    >>> found.facts["hosts"], [tier["hosts"] for tier in found.facts["tiers"]]
    (3, [[1, 2], [3]])
    """
    check = Violations(source)
    found = Switches()
    notes: list[str] = []
    said = ""
    for number, line in _lines(text):
        if line.startswith("#"):
            said = line[1:].strip()
            continue
        where = f"line {number}"
        values = _values(line, where, check)
        if "switchname" in values:
            for switch in expand(values["switchname"], check, where):
                if switch in found.children or switch in found.hosts:
                    check.add("SwitchName", switch, rule="stands twice", fix="Give it one line", where=where)
                if "switches" in values:
                    found.children[switch] = expand(values["switches"], check, where)
                if "nodes" in values or "switches" not in values:
                    found.hosts[switch] = expand(values.get("nodes", ""), check, where)
                _real_name(said, switch, found)
            if "linkspeed" in values:
                notes.append("LinkSpeed is given, which Slurm does not use and which has no unit: left out")
        elif "blockname" in values:
            block = values["blockname"]
            if block in found.blocks:
                check.add("BlockName", block, rule="stands twice", fix="Give it one line", where=where)
            found.blocks[block] = expand(values.get("nodes", ""), check, where)
            _real_name(said, block, found)
        elif "blocksizes" in values:
            found.sizes = _sizes(values["blocksizes"].split(","), check, where)
        said = ""
    if not check.found and not (found.children or found.hosts or found.blocks):
        check.add("topology", text.strip()[:40], rule="has no switch and no block", fix="Is it a topology.conf?")
    check.raise_if_any()
    form = "Slurm topology.conf, blocks" if found.blocks else "Slurm topology.conf, tree"
    return describe(found, form, name, list(dict.fromkeys(notes)))


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines with those that go on behind a backslash joined; comments alone on a line are kept."""
    found: list[tuple[int, str]] = []
    open_line = ""
    for number, line in enumerate(text.split("\n"), 1):
        bare = line if line.lstrip().startswith("#") else line.split("#", 1)[0]
        joined = open_line + bare.strip()
        if joined.endswith("\\"):
            open_line = joined[:-1].rstrip()
            open_line += "" if open_line.endswith((",", "=")) else " "
            continue
        open_line = ""
        if joined:
            found.append((number, joined))
    if open_line.strip():
        found.append((text.count("\n") + 1, open_line.strip()))
    return found


def _values(line: str, where: str, check: Violations) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in re.findall(r"[^\s=]+=[^\s]*|[^\s=]+", line):
        key, _, value = word.partition("=")
        if key.lower() not in KEYS or not value:
            check.add("topology", word, rule="is no setting of a topology.conf", where=where,
                      fix="Known are SwitchName, Switches, Nodes, LinkSpeed, BlockName and BlockSizes")  # fmt: skip
        else:
            found[key.lower()] = value
    return found


def _real_name(comment: str, switch: str, found: Switches) -> None:
    known, _, real = comment.partition("=")
    if known == switch and real:
        found.real_names[switch] = real


def _sizes(values: list[Any], check: Violations, where: str) -> list[int]:
    found = []
    for value in values:
        size = whole(str(value).strip())
        if not size:
            check.add("BlockSizes", value, rule="must be whole numbers >= 1", fix="Write them as 18,36", where=where)
        else:
            found.append(size)
    return found


def read_yaml(text: str, source: str, name: str) -> Described:
    """A ``topology.yaml`` of Slurm 25.05 or later; of several topologies, the default one or the first.

    Raises
    ------
    InstanceError
        No YAML of this kind, or a host list that cannot be read; all at once.
    """
    document = read_lists(text, source)
    if not isinstance(document, list) or not all(isinstance(one, dict) for one in document):
        raise refuse(source, type(document).__name__, "must be a list of topologies", "See topology.yaml of Slurm")
    chosen = next((one for one in document if one.get("cluster_default") is True), document[0])
    label = str(chosen.get("topology", name))
    notes = []
    if len(document) > 1:
        others = ", ".join(str(one.get("topology")) for one in document if one is not chosen)
        notes.append(f"topology {label} is taken, not {others}")
    check = Violations(source)
    found = Switches()
    kinds = [kind for kind in ("tree", "block", "flat") if kind in chosen]
    if len(kinds) != 1:
        check.add("topology", ", ".join(kinds) or "none", rule="must be one of tree, block and flat",
                  fix="Give it one", where=label)  # fmt: skip
        check.raise_if_any()
    kind = kinds[0]
    part = chosen[kind] if isinstance(chosen[kind], dict) else {}
    if kind == "tree":
        for row in _rows(part.get("switches"), "switches", check):
            switch = str(row.get("switch"))
            if "children" in row:
                found.children[switch] = expand(str(row["children"]), check, switch)
            if row.get("nodes") is not None or "children" not in row:
                found.hosts[switch] = expand(str(row.get("nodes") or ""), check, switch)
    elif kind == "block":
        found.sizes = _sizes(part.get("block_sizes") or [], check, "block_sizes")
        for row in _rows(part.get("blocks"), "blocks", check):
            found.blocks[str(row.get("block"))] = expand(str(row.get("nodes") or ""), check, str(row.get("block")))
    else:
        notes.append("a flat topology says that all hosts are alike, and names none")
    check.raise_if_any()
    return describe(found, f"Slurm topology.yaml, {kind}", label, notes)


def _rows(value: Any, field: str, check: Violations) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        check.add(field, value, rule="must be a list of mappings", fix="See topology.yaml of Slurm")
        return []
    return value


def read_model(text: str, source: str, name: str) -> Described:
    """A fabric as topograph models it: switches by name, and blocks of hosts below them.

    Raises
    ------
    InstanceError
        No YAML of this kind, or a host list that cannot be read; all at once.
    """
    document = read_lists(text, source)
    check = Violations(source)
    found = Switches()
    switches = document.get("switches") if isinstance(document, dict) else None
    if not isinstance(switches, dict):
        raise refuse(source, type(switches).__name__, "switches must be a mapping of names", "Is it a topology?")
    for switch, row in switches.items():
        below = row.get("switches") if isinstance(row, dict) else None
        found.children[str(switch)] = [str(one) for one in below or []]
    for row in _rows(document.get("blocks") or [], "blocks", check):
        switch = str(row.get("switch"))
        nodes = row.get("nodes") or []
        hosts = [host for one in (nodes if isinstance(nodes, list) else [nodes])
                 for host in expand(str(one), check, switch)]  # fmt: skip
        found.hosts.setdefault(switch, []).extend(hosts)
        marks = row.get("annotations") if isinstance(row.get("annotations"), dict) else {}
        domains = [value for key, value in (marks or {}).items() if key.endswith("/domain")]
        found.domains.update({host: str(domain) for domain in domains[:1] for host in hosts})
    check.raise_if_any()
    leaves = [one for one in found.hosts if one not in found.children]
    return describe(
        found, "topograph model", name, [f"{len(leaves)} switches are named by blocks only"] if leaves else []
    )
