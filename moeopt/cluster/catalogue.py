"""Reference machines: what is in a box or rack of a kind, each row with its source; what no source confirms is null."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from moeopt.errors import InstanceError, Violation, shortened

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster

MOST_MACHINES = 4096


@dataclass(frozen=True)
class Machine:
    """One kind of machine.

    Parameters
    ----------
    name, gpu
        What it is called here, and its GPUs.
    gpus, servers
        GPUs of a server, and servers of the machine: 1, or the trays of a rack that is one NVLink domain.
    scale_up, scale_up_bytes_per_s
        ``nvswitch``, ``direct`` or ``none``; what a GPU sends over it in all, in one direction.
    gpus_per_pcie_switch, pcie_bytes_per_s
        GPUs that share a PCIe switch, and what one sends over PCIe.
    nics, nic_bytes_per_s
        Network ports of a server, and what one sends.
    direct_links
        For ``direct``: rows of two GPUs and their number of links, and what one link carries.
    source, note
        Where the figures come from, and what to know about them.
    """

    name: str
    gpu: str
    gpus: int
    servers: int
    scale_up: str
    scale_up_bytes_per_s: float | None
    gpus_per_pcie_switch: int
    pcie_bytes_per_s: float | None
    nics: int
    nic_bytes_per_s: float | None
    direct_links: dict[str, Any] | None
    source: str
    note: str | None = None


@cache
def machines() -> dict[str, Machine]:
    """All machines by name.

    >>> machines()["gb200-nvl72"].servers, machines()["mi300x"].scale_up_bytes_per_s
    (18, None)
    """
    text = files("moeopt.cluster").joinpath("machines.json").read_text(encoding="utf-8")
    return {row["name"]: Machine(**row) for row in json.loads(text)["machines"]}


def find_machine(name: str, field: str = "machine") -> Machine:
    """One machine, capitals aside.

    Raises
    ------
    InstanceError
        There is none of that name.
    """
    found = machines().get(str(name).lower())
    if found is None:
        rule = f"is not one of {', '.join(machines())}"
        raise InstanceError([Violation(field, "", str(name), rule, "Use one of these: moeopt info clusters")])
    return found


def reference(name: str, *, nic_bytes_per_s: float | None = None, oversubscription: float = 1.0) -> Cluster:
    """A cluster of equal machines by name: ``4x8-h100``, ``2x8-a100``, ``gb200-nvl72``, ``2xgb200-nvl72``, ``8-h800``.

    Parameters
    ----------
    name
        ``Nx``, machines (1 if left out); ``G-``, GPUs of a machine that are used (all if left out); the machine.
    nic_bytes_per_s
        What a network port sends, in place of the figure of the table.
    oversubscription
        What the ports of a leaf send together, over what its uplinks carry; 1 blocks nothing.

    Raises
    ------
    InstanceError
        No such machine, more GPUs than it has, or a figure that is needed and that no source confirms.

    Notes
    -----
    Port i of every server is on leaf i (rails), and leaves are joined by one spine, which stands for all. Bandwidths
    are those of data sheets; `Cluster.derated` applies what messages reach.

    >>> two = reference("2x8-h100")
    >>> [(tier.name, tier.sizes, tier.bytes_per_s / 1e9) for tier in two.tiers()]
    [('NVLink', (8, 8), 450.0), ('leaf', (16,), 50.0)]
    >>> two.link(0, 8).bytes_per_s, two.link(0, 8).alpha_s
    (50000000000.0, 5e-06)
    >>> reference("9-h100")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: cluster = 9-h100: a h100 has 8 GPUs, not 9. Use 1 to 8.
    """
    from moeopt.cluster.building import build

    count, gpus, machine = parse_name(name)
    return build(machine, count, gpus, name=name, nic_bytes_per_s=nic_bytes_per_s, oversubscription=oversubscription)


def parse_name(name: str) -> tuple[int, int, Machine]:
    """Machines, GPUs of each, and the kind, of the name of a reference cluster.

    >>> count, gpus, machine = parse_name("4x8-h100")
    >>> count, gpus, machine.name
    (4, 8, 'h100')
    """

    def refuse(rule: str, fix: str) -> InstanceError:
        return InstanceError([Violation("cluster", "", name, rule, fix)])

    if not isinstance(name, str):
        raise InstanceError([Violation("cluster", "", shortened(repr(name)), "must be a name", "Write it as 4x8-h100")])
    match = re.fullmatch(r"(?:([0-9]{1,6})x)?(?:([0-9]{1,6})-)?([a-z][a-z0-9-]*)", name.strip().lower())
    if match is None:
        raise refuse("is no name of a cluster", "Write it as 4x8-h100: machines, GPUs of each, kind")
    machine = find_machine(match[3], "cluster")
    most = machine.gpus * machine.servers
    count, gpus = int(match[1] or 1), int(match[2] or most)
    if not 1 <= gpus <= most:
        raise refuse(f"a {machine.name} has {most} GPUs, not {gpus}", f"Use 1 to {most}")
    if not 1 <= count <= MOST_MACHINES:
        raise refuse(f"{count} machines are not between 1 and {MOST_MACHINES}", "Use a number in that range")
    return count, gpus, machine
