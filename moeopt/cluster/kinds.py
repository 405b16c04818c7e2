"""Words of the link graph: kinds of nodes and links, and how far from a GPU a link is."""

from __future__ import annotations

NODE_KINDS = ("gpu", "nvswitch", "pcie", "host", "nic", "leaf", "spine")
"""GPU; NVSwitch (those of a domain are one node); PCIe switch; CPU socket or host bridge; network port; switches."""

SWITCHES = ("leaf", "spine")

SCALE_UP = ("nvlink", "xgmi")
"""Links that make a domain: GPUs read each other's memory over them."""

LINK_KINDS = (*SCALE_UP, "link", "pcie", "smp", "nic", "uplink")
"""``link`` is one that a user's link graph has between GPUs, ``smp`` joins sockets, ``nic`` is the cable from a network
port to its switch (or to another port), ``uplink`` joins switches."""

COST = {"nvlink": 1, "xgmi": 1, "link": 1, "uplink": 2, "pcie": 100, "smp": 300, "nic": 10_000}
"""Routes have the least sum of these: NVLink before PCIe, PCIe before the network, and the nearest network port, from
which a route goes over a spine rather than through the host to another port."""
