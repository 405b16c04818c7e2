"""The catalogue of GPUs: peaks, memory, links and power, each row with its source; what no source confirms is null."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from moeopt.errors import InstanceError, Violation, did_you_mean


@dataclass(frozen=True)
class Gpu:
    """One type of accelerator.

    Parameters
    ----------
    name, vendor
        What it is called here, and who makes it.
    dense_tflops
        Peak 1e12 operations a second without sparsity, by data type.
    memory_bytes, bytes_per_s
        Capacity by the data sheet (GB of 1e9 bytes), and bandwidth of the memory.
    scale_up, scale_up_bytes_per_s, domain
        The fast interconnect, what a GPU sends over it in one direction, and how many GPUs it joins.
    nic_bytes_per_s, pcie_bytes_per_s
        What a GPU sends in one direction over the network, and over PCIe.
    power_w
        Watts.
    source, source_rest, note
        Where peaks and bandwidth come from, where the rest does if elsewhere, and what to know about them.
    """

    name: str
    vendor: str
    dense_tflops: dict[str, float | None]
    memory_bytes: int | None
    bytes_per_s: float | None
    scale_up: str
    scale_up_bytes_per_s: float | None
    domain: int | None
    nic_bytes_per_s: float | None
    pcie_bytes_per_s: float | None
    power_w: float | None
    source: str
    source_rest: str | None = None
    note: str | None = None


GPUS: tuple[str, ...] = (
    *("A100", "A800", "H100", "H200", "H800", "H20", "L20", "L40S", "B200", "B300", "GB200", "GB300"),
    *("MI300X", "MI355X", "Ascend-910B", "Ascend-910C", "TPU-v5e", "TPU-v5p"),
)
"""Names in the table ``gpus.json`` beside this file, which has a source for every row."""


@cache
def gpus() -> dict[str, Gpu]:
    """All GPUs by name.

    >>> gpus()["H800"].memory_bytes, gpus()["Ascend-910B"].bytes_per_s
    (80000000000, None)
    """
    text = files("moeopt.llm").joinpath("gpus.json").read_text(encoding="utf-8")
    return {row["name"]: Gpu(**row) for row in json.loads(text)["gpus"]}


def find_gpu(name: str, field: str = "gpu") -> Gpu:
    """One GPU, capitals aside.

    `name` is that of the table; `field` is what messages call it.

    >>> find_gpu("h100").domain
    8
    >>> find_gpu("GTX 1080")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: gpu = GTX 1080: is not one of A100, A800, H100, H200, H800, H20, L20, L40S, B200, B300, GB200, GB300, MI300X, MI355X, Ascend-910B, Ascend-910C, TPU-v5e, TPU-v5p. Use one of these.
    """  # noqa: E501
    found = {key.lower(): row for key, row in gpus().items()}.get(str(name).lower())
    if found is None:
        rule = f"is not one of {', '.join(GPUS)}"
        fix = did_you_mean(name, GPUS, "Use one of these")
        raise InstanceError([Violation(field, "", str(name), rule, fix)])
    return found
