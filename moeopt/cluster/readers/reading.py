"""One door for every topology file: told by content, read by its reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moeopt import kinds as given
from moeopt.cluster.described import Described
from moeopt.cluster.readers import kinds
from moeopt.cluster.readers.text import clean, refuse
from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, Violations

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster

KNOWN = (
    "nvidia-smi topo -m, NCCL topology XML, hwloc XML, Slurm topology.conf and topology.yaml, ibnetdiscover, "
    "kubectl get nodes -o json|yaml, a rank-cost matrix in CSV, JSON or NPY, and documents of moeopt"
)


@given.expects(path=given.paths)
def read_topology(
    path: str | Path | Sequence[str | Path], *, machine: str | None = None, oversubscription: float = 1.0
) -> Cluster | Described:
    """A topology file of any kind that is known, whatever its name; ``-`` is standard input.

    Parameters
    ----------
    path
        One file, or several of NCCL or of ``nvidia-smi topo -m``, one of each server, in the order of ranks.
    machine
        What every host is, by its name in the catalogue: makes a cluster of files that have hosts and no GPUs.
    oversubscription
        See `Described.cluster`.

    Returns
    -------
    Cluster or Described
        A cluster where the file has GPUs and links, or where `machine` says the rest.

    Raises
    ------
    InstanceError
        Not to be read, of no known kind, or broken; every violation that its reader found.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "cost.csv").write_text("0 1\\n1 0\\n")
    ...     read_topology(f"{folder}/cost.csv").form
    'rank-cost matrix'
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise refuse("", "()", "no file is given", "Give at least one")
    found = _read(paths)
    if machine is None:
        return found
    if isinstance(found, Described):
        return found.cluster(machine, oversubscription=oversubscription)
    rule = "has GPUs and links of its own"
    raise refuse(str(paths[0]), machine, rule, "Leave the machine out", "machine")


@given.expects(data=bytes, name=given.text)
def parse_topology(data: bytes, name: str) -> Cluster | Described:
    """`read_topology` for the bytes of one file.

    `data` is the whole file, `name` what messages call it.

    >>> parse_topology(b"0 1\\n1 0\\n", "cost.csv").facts["ranks"]
    2
    """
    return _one(data, name)


def is_topology(data: bytes) -> bool:
    """Whether these bytes are a topology; a table of numbers is one where it can be no loads."""
    kind, text = _kind(data, "")
    if kind in (kinds.COSTS_NPY, kinds.COSTS_CSV) or (kind == kinds.COSTS_JSON and (text or "").lstrip()[:1] == "["):
        from moeopt.cluster.readers.matrices import is_costs

        return is_costs(data, (text or "").lstrip())
    return kind is not None


def _read(paths: Sequence[str | Path]) -> Cluster | Described:
    if len(paths) == 1:
        return _one(read_bytes(paths[0]), str(paths[0]))
    texts, check = [], Violations()
    for path in paths:
        with check.within():
            kind, text = _kind(read_bytes(path), str(path))
            if kind not in (kinds.NCCL, kinds.SMI):
                rule = f"is {kind or 'nothing known'}, and only NCCL topologies and nvidia-smi topo come one a server"
                check.add("topology", str(path), rule=rule, fix="Give one file")
            texts.append((kind, str(path), text or ""))
    check.raise_if_any()
    name = f"{len(paths)} servers"
    if {kind for kind, *_ in texts} == {kinds.NCCL}:
        from moeopt.cluster.readers.nccl import read_nccl

        return read_nccl([(source, text) for _, source, text in texts], name)
    if {kind for kind, *_ in texts} == {kinds.SMI}:
        from moeopt.cluster.joining import side_by_side
        from moeopt.cluster.readers.smi_graph import read_smi

        return side_by_side([read_smi(text, source, source) for _, source, text in texts], name)
    raise refuse("", ", ".join(map(str, paths)), "are files of different kinds", "Give one kind")


def _kind(data: bytes, source: str) -> tuple[str | None, str | None]:
    """The kind of a file, and its text; None for what is no text."""
    try:
        text = None if data.startswith(b"\x93NUMPY") else clean(data, source)
    except InstanceError:
        text = None
    return kinds.kind_of(data, text), text


def _one(data: bytes, source: str) -> Cluster | Described:
    kind, _ = _kind(data, source)
    name = source if source == "-" else Path(source).name
    if kind == kinds.COSTS_NPY:
        from moeopt.cluster.readers.matrices import read_npy

        return read_npy(data, source, name)
    text = clean(data, source)
    if kind is None or kind == kinds.XML:
        first = next((line.strip() for line in text.split("\n") if line.strip()), "")
        raise refuse(source, first, "is no topology that is known", f"Known are {KNOWN}")
    return READERS[kind](text, source, name)


def _smi(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.smi_graph import read_smi

    return read_smi(text, source, name)


def _nccl(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.nccl import read_nccl

    return read_nccl([(source, text)], name)


def _hwloc(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.hwloc import read_hwloc

    return read_hwloc(text, source, name)


def _conf(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.slurm import read_conf

    return read_conf(text, source, name)


def _yaml(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.slurm import read_yaml

    return read_yaml(text, source, name)


def _model(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.slurm import read_model

    return read_model(text, source, name)


def _ib(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.ib import read_ib

    return read_ib(text, source, name)


def _labels_json(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.labels import read_labels

    return read_labels(read_json(text, source), source, name)


def _labels_yaml(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.labels import read_labels
    from moeopt.cluster.readers.yaml_lists import read_lists

    return read_labels(read_lists(text, source), source, name)


def _cluster(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.document import from_dict

    return from_dict(read_json(text, source), source)


def _costs_json(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.matrices import read_costs

    return read_costs(read_json(text, source, allow_nan=True), source, name)


def _costs_csv(text: str, source: str, name: str) -> Cluster | Described:
    from moeopt.cluster.readers.matrices import read_csv

    return read_csv(text, source, name)


READERS: dict[str, Callable[[str, str, str], Cluster | Described]] = {
    kinds.SMI: _smi,
    kinds.NCCL: _nccl,
    kinds.HWLOC: _hwloc,
    kinds.CONF: _conf,
    kinds.YAML: _yaml,
    kinds.MODEL: _model,
    kinds.IB: _ib,
    kinds.LABELS_JSON: _labels_json,
    kinds.LABELS_YAML: _labels_yaml,
    kinds.CLUSTER: _cluster,
    kinds.COSTS_JSON: _costs_json,
    kinds.COSTS_CSV: _costs_csv,
}
"""Text, source and name to what is read; a new form is a line here, one in `kinds` and a file."""
