"""hwloc XML (``lstopo --of xml``), versions 2 and 3: PCI bridges as a tree, GPUs and ports by their devices."""

from __future__ import annotations

import re

import networkx as nx

from moeopt.cluster.building import DIRECT_S, PCIE_S, SMP_BYTES_PER_S, SMP_S
from moeopt.cluster.graph import Cluster, add_link, add_node
from moeopt.cluster.readers.safe_xml import Element, read_xml
from moeopt.cluster.readers.text import refuse, whole

_GPU = re.compile(r"(?:nvml|cuda|rsmi|ze|opencl\d+d)\d+$")
_NIC = re.compile(r"(?:mlx\d+_\d+|bnxt_re\d+|irdma\d+|efa_\d+|hfi\d+_\d+|cxi\d+|rocep\w+|ibp\w+)$")


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.graph = nx.DiGraph()
        self.notes: list[str] = []
        self.hosts: list[str] = []
        self.gpus: dict[str, str] = {}  # gp_index of each OS device to GPU
        self.count = {"gpu": 0, "nic": 0, "pcie": 0}

    def made(self, kind: str, **attributes: str) -> str:
        number = self.count[kind]
        self.count[kind] = number + 1
        name = f"gpu{number}" if kind == "gpu" else f"{kind}0.{number}"
        return add_node(self.graph, name, kind, index=number, node=0, **attributes)

    def walk(self, element: Element, above: str | None) -> None:
        for child in element.find("object"):
            kind = child.get("type")
            if kind in ("Package", "Group", "NUMANode") and _holds_pci(child) and above is None:
                host = add_node(self.graph, f"host0.{len(self.hosts)}", "host", index=len(self.hosts), node=0,
                                label=f"{kind} {child.get('os_index')}")  # fmt: skip
                self.hosts.append(host)
                self.walk(child, host)
            elif kind == "Bridge" and child.get("bridge_type").startswith("1") and above and len(_devices(child)) > 1:
                switch = self.made("pcie")
                add_link(self.graph, switch, above, self.speed(child), "pcie", PCIE_S)
                self.walk(child, switch)
            elif kind == "PCIDev":
                self.device(child, above)
            else:
                self.walk(child, above)

    def device(self, pci: Element, above: str | None) -> None:
        systems = [one for one in pci.walk() if one.get("type") == "OSDev"]
        gpu = [one for one in systems if _GPU.match(one.get("name"))]
        nics = [one for one in systems if _NIC.match(one.get("name"))]
        if above is None and (gpu or nics):
            above = add_node(self.graph, f"host0.{len(self.hosts)}", "host", index=len(self.hosts), node=0)
            self.hosts.append(above)
        if gpu and above is not None:
            node = self.made("gpu", label=gpu[0].get("name"))
            add_link(self.graph, node, above, self.speed(pci), "pcie", PCIE_S)
            self.gpus.update({one.get("gp_index"): node for one in gpu})
        for one in nics if above is not None else ():
            nic = self.made("nic", label=one.get("name"))
            slot = pci.get("pci_busid") if len(nics) > 1 else None
            add_link(self.graph, str(above), nic, self.speed(pci), "pcie", PCIE_S, port=slot)

    def speed(self, pci: Element) -> float:
        """Bytes/s of the slot: ``pci_link_speed`` is in GB/s."""
        try:
            found = float(pci.get("pci_link_speed") or 0)
        except ValueError:
            found = 0.0
        if not 0 < found < 1000:
            self.notes.append("PCIe without a speed is taken as generation 4 with 16 lanes")
            return 31.5e9
        return found * 1e9

    def nvlink(self, top: Element) -> None:
        for table in top.find("distances2hetero", "distances2"):
            if "NVLink" not in table.get("name"):
                continue
            ids = " ".join(one.text for one in table.find("indexes")).split()
            values = " ".join(one.text for one in table.find("u64values")).split()
            nodes = [self.gpus.get(one.rpartition(":")[2]) for one in ids]
            size = len(ids)
            odd = next((value for value in values if whole(value) is None), None)
            if odd is not None:
                rule = f"has {odd[:20]} in it, and bandwidths are whole numbers of MB/s"
                raise refuse(self.source, table.get("name"), rule, "Run lstopo again")
            if len(values) != size * size:
                rule = f"has {len(values)} values for {size} devices, not {size} x {size}"
                raise refuse(self.source, table.get("name"), rule, "Was the file cut short?")
            for row, src in enumerate(nodes):
                for column, dst in enumerate(nodes):
                    megabytes = int(values[row * size + column])
                    if row != column and src and dst and megabytes:
                        add_link(self.graph, src, dst, megabytes * 1e6, "nvlink", DIRECT_S, both_ways=False)
            if not all(nodes):
                self.notes.append("NVLinks to what is no GPU of the file are left out")


def _holds_pci(element: Element) -> bool:
    return bool(_devices(element))


def _devices(element: Element) -> list[Element]:
    def is_ours(name: str) -> bool:
        return bool(_GPU.match(name) or _NIC.match(name))

    found = [one for one in element.walk() if one.get("type") == "PCIDev"]
    return [one for one in found if any(is_ours(below.get("name")) for below in one.walk())]


def read_hwloc(text: str, source: str, name: str) -> Cluster:
    """A server from hwloc XML.

    Raises
    ------
    InstanceError
        Broken XML, no GPU, or NVLink bandwidths that are no square table.
    """
    top = read_xml(text, source)[0]
    reader = _Reader(source)
    reader.walk(top, None)
    if not reader.count["gpu"]:
        rule = "has no GPU: lstopo was built without CUDA, NVML or ROCm, or I/O devices were left out"
        raise refuse(source, "no GPU", rule, "Run lstopo --of xml --whole-io on a GPU node with these libraries")
    reader.nvlink(top)
    hosts = reader.hosts
    for host in hosts[1:]:
        add_link(reader.graph, hosts[0], host, SMP_BYTES_PER_S, "smp", SMP_S)
    if len(hosts) > 1:
        reader.notes.append(f"between sockets {SMP_BYTES_PER_S / 1e9:g} GB/s are taken, which the file does not say")
    return Cluster(name, reader.graph, tuple(dict.fromkeys(reader.notes)))
