"""GPUs one can have: what each computes and sends, how many there are, what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from moeopt.cost.checks import not_negative, whole
from moeopt.cost.constants import IB_ALPHA_S, LINK_ALPHA_S, NVL72_COLLECTIVE_S, Efficiency
from moeopt.cost.links import Link
from moeopt.cost.roofline import Machine
from moeopt.errors import InstanceError, Violations
from moeopt.llm.gpus import find_gpu

NODE_GPUS = 8
"""GPUs of one server where nothing else is known."""


MOST_GPUS, MOST_PRICE = 10**12, 10**9
"""Of one type, and of one GPU in any currency: sums of products stay numbers that doubles hold."""


@dataclass(frozen=True)
class GpuType:
    """One type of GPU, the servers it comes in, and the market.

    Parameters
    ----------
    name
        What pools and plans call it.
    machine
        Peaks and the parts of them that are reached.
    node_gpus, domain_gpus
        GPUs of one server, and of one scale-up domain (NVLink): equal but for racks such as NVL72 and for PCIe, 1.
    scale_up
        What a GPU has within its domain, one direction; ``None`` where a domain is one GPU.
    network
        What a GPU has between domains, one direction; ``None`` where no source confirms a port: one domain then.
    stock
        GPUs there are; ``None``: any number.
    price
        Of one GPU, in any unit per time, the same for all types; ``None``: not known.

    Raises
    ------
    InstanceError
        Counts below 1, a negative stock or price, domains of several GPUs without a link.

    >>> h800 = GpuType.of("H800", stock=320)
    >>> h800.domain_gpus, h800.stock, h800.link(8) == h800.scale_up, h800.link(16) == h800.network
    (8, 320, True, True)
    """

    name: str
    machine: Machine
    node_gpus: int
    domain_gpus: int
    scale_up: Link | None
    network: Link | None
    stock: int | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        check = Violations(self.name)
        whole(check, node_gpus=self.node_gpus, domain_gpus=self.domain_gpus)
        if self.stock is not None:
            whole(check, 0, stock=self.stock)
        if self.price is not None:
            not_negative(check, price=self.price)
        for key, most in (("stock", MOST_GPUS), ("price", MOST_PRICE)):
            value = getattr(self, key)
            if not check.found and value is not None and value > most:
                check.add(key, value, rule=f"must be at most {most:,}", fix=f"Give at most {most:,}")
        if not check.found and self.domain_gpus > 1 and self.scale_up is None:
            fix = "Give the Link within the domain, or domain_gpus = 1"
            check.add("scale_up", None, rule=f"joins {self.domain_gpus} GPUs of a domain", fix=fix)
        check.raise_if_any()

    @classmethod
    def of(
        cls,
        gpu: str,
        *,
        stock: int | None = None,
        price: float | None = None,
        efficiency: Efficiency | None = None,
        node_gpus: int | None = None,
    ) -> GpuType:
        """A GPU of the catalogue (`moeopt.llm.find_gpu`) in its usual server.

        Raises
        ------
        InstanceError
            An unknown GPU, or one whose memory, bandwidth or links no source confirms.

        >>> GpuType.of("GB200").node_gpus, GpuType.of("GB200").domain_gpus, GpuType.of("L40S").domain_gpus
        (4, 72, 1)
        """
        row = find_gpu(gpu)
        domain = row.domain or 1
        inside = None
        if domain > 1:
            alpha_s = LINK_ALPHA_S if domain <= NODE_GPUS else NVL72_COLLECTIVE_S
            inside = Link.scale_up(gpu, efficiency=efficiency, alpha_s=alpha_s)
        outside = None
        if row.nic_bytes_per_s is not None:
            outside = Link.nic(gpu, efficiency=efficiency, alpha_s=IB_ALPHA_S)
        machine = Machine.of(gpu, efficiency=efficiency)
        usual = 4 if domain > NODE_GPUS else NODE_GPUS
        server = usual if node_gpus is None else node_gpus
        return cls(row.name, machine, server, domain, inside, outside, stock, price)

    def link(self, gpus: int) -> Link:
        """What joins a group of so many GPUs: the scale-up fabric while they fit a domain, else the network.

        Raises
        ------
        InstanceError
            The group is larger than a domain and no source confirms a network.
        """
        if gpus <= self.domain_gpus and self.scale_up is not None:
            return self.scale_up
        if self.network is None:
            check = Violations(self.name)
            rule = f"no network is known, and a domain has {self.domain_gpus}"
            check.add("gpus", gpus, rule=rule, fix=f"Use at most {self.domain_gpus}, or give the network's Link")
            raise InstanceError(check.found, check.source)
        return self.network

    def with_stock(self, stock: int | None) -> GpuType:
        """The same GPUs, so many of them."""
        return replace(self, stock=stock)
