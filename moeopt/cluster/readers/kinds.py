"""What a topology file is, by its content."""

from __future__ import annotations

import re

SMI, NCCL, HWLOC, XML = "nvidia-smi topo", "NCCL topology XML", "hwloc XML", "XML"
CONF, YAML, MODEL, IB = "Slurm topology.conf", "Slurm topology.yaml", "topograph model", "ibnetdiscover"
LABELS_JSON, LABELS_YAML = "Kubernetes nodes, JSON", "Kubernetes nodes, YAML"
CLUSTER, COSTS_JSON, COSTS_NPY, COSTS_CSV = "cluster document", "costs, JSON", "costs, NPY", "costs, CSV"

HEAD = 1_000_000
"""Signs of a text that are looked at."""


def kind_of(data: bytes, text: str | None) -> str | None:
    """Which reader takes it; None where none does. `text` is the cleaned text, or None of a binary file.

    >>> kind_of(b"", "SwitchName=s0 Nodes=n[1-4]"), kind_of(b"", "<system version='1'/>"), kind_of(b"", "hello")
    ('Slurm topology.conf', 'NCCL topology XML', None)
    """
    if data.startswith(b"\x93NUMPY"):
        return COSTS_NPY
    if text is None:
        return None
    head = text[:HEAD].lstrip()
    if head.startswith("<"):
        return _xml(head)
    if head.startswith("{"):
        return _json(head)
    if head.startswith("["):
        return COSTS_JSON if re.match(r"\[\s*\[", head) else LABELS_JSON if '"labels"' in head else None
    return _text(head)


def _xml(head: str) -> str:
    tag = re.search(r"<([A-Za-z]\w*)", re.sub(r"<!--.*?-->|<\?.*?\?>|<!DOCTYPE\s+\w+", "", head, flags=re.DOTALL))
    if tag is not None and tag[1] == "topology":
        return HWLOC
    return NCCL if tag is not None and tag[1] in ("system", "graphs", "graph", "cpu", "pci", "gpu", "nic") else XML


def _json(head: str) -> str | None:
    if re.search(r'"schema"\s*:\s*"moeopt/cluster/', head):
        return CLUSTER
    if re.search(r'"(labels|Topology)"\s*:\s*\{', head) and re.search(r'"(metadata|Nodes|items|Name|name)"\s*:', head):
        return LABELS_JSON
    return COSTS_JSON if re.search(r'"(cost|rank_cost|rank_costs|costs)"\s*:\s*\[', head) else None


def _text(head: str) -> str | None:
    from moeopt.cluster.readers.ib import is_dump
    from moeopt.cluster.readers.smi import has_row, is_matrix

    if is_matrix(head):
        return SMI
    if re.search(r"^\s*(SwitchName|BlockName)\s*=", head, re.IGNORECASE | re.MULTILINE):
        return CONF
    if is_dump(head) or re.search(r"^(vendid|caguid|switchguid)=0x", head, re.MULTILINE):
        return IB
    if re.search(r"^\s*-\s+topology\s*:", head, re.MULTILINE):
        return YAML
    if re.search(r"^switches\s*:", head, re.MULTILINE) and re.search(r"^blocks\s*:", head, re.MULTILINE):
        return MODEL
    if re.search(r"^\s*(-\s+)?(apiVersion|kind)\s*:", head, re.MULTILINE) and re.search(r"\blabels\s*:", head):
        return LABELS_YAML
    if re.search(r"^[ \t>|#$]*GPU0\b.*\bGPU1\b", head, re.MULTILINE) or has_row(head):
        return SMI  # a header without its rows, or rows without it: its reader says so
    first = next((line for line in head.split("\n") if line.strip()), "")
    if re.fullmatch(r"[\w.+\-,;\t ]+", first) and re.search(r"[,;\t ]", first.strip()) and re.search(r"\d", head):
        return COSTS_CSV
    return None
