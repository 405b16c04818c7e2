"""The roofline of single operators: each takes the longer of computing and of moving bytes, then the times add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, positive, top_k_of
from moeopt.cost.constants import Efficiency
from moeopt.errors import Violations
from moeopt.llm.gpus import find_gpu
from moeopt.llm.precision import FORMATS


@dataclass(frozen=True)
class Work:
    """What one operator does on one GPU.

    Parameters
    ----------
    flops
        Operations, a multiplication and an addition counted apart.
    bytes
        Bytes read from and written to the GPU's memory, each once: a floor of traffic.
    dtype
        Arithmetic it runs in, a key of the GPU's peaks.

    >>> Work(2.0, 3.0) + Work(1.0, 1.0)
    Work(flops=3.0, bytes=4.0, dtype='bf16')
    """

    flops: float
    bytes: float
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        check = Violations()
        not_negative(check, flops=self.flops, bytes=self.bytes)
        check.raise_if_any()

    def __add__(self, other: Work) -> Work:
        """Both fused into one kernel: computing and moving overlap across them."""
        if self.dtype != other.dtype:
            check = Violations()
            rule = f"cannot fuse with arithmetic in {self.dtype}"
            check.add("dtype", other.dtype, rule=rule, fix="Time the operators one by one")
            check.raise_if_any()
        return Work(self.flops + other.flops, self.bytes + other.bytes, self.dtype)


@dataclass(frozen=True)
class Numerics:
    """Formats by name: how weights and cache are stored (`moeopt.llm.FORMATS`), and what matrices are computed in.

    Parameters
    ----------
    weights, kv
        Stored formats; bytes of one element, the scales of blocks (0.02 % to 6 %) left aside.
    attention, ffn
        Arithmetic of projections and attention, and of FFN and experts: ``bf16``, ``fp8``, ``fp4``, ``int8``.

    >>> Numerics().weight_bytes, FP8.weight_bytes, FP4.kv_bytes
    (2.0, 1.0, 0.5)
    """

    weights: str = "bf16"
    kv: str = "bf16"
    attention: str = "bf16"
    ffn: str = "bf16"

    def __post_init__(self) -> None:
        check = Violations()
        for name in ("weights", "kv"):
            if getattr(self, name) not in FORMATS:
                check.add(name, getattr(self, name), rule=f"is not one of {', '.join(FORMATS)}", fix="Use one of these")
        check.raise_if_any()

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return FORMATS[self.weights].bits / 8

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached element."""
        return FORMATS[self.kv].bits / 8

    @property
    def index(self) -> str:
        """Arithmetic of an index that selects tokens: FP8 where FFNs have it or less, else that of attention.

        >>> FP8.index, BF16.index
        ('fp8', 'bf16')
        """
        return "fp8" if self.ffn in ("fp8", "fp4") else self.attention


BF16 = Numerics()
FP8 = Numerics("fp8", "bf16", "bf16", "fp8")
"""DeepSeek-V3's: weights in FP8, cache and attention in BF16 (its report, section 3.3)."""
FP4 = Numerics("fp4", "fp4", "fp4", "fp4")
"""Weights, cache and arithmetic in FP4, as Helix assumes (arXiv 2507.07120, section 3)."""


@dataclass(frozen=True)
class Machine:
    """One GPU as the models see it: data-sheet peaks, and the parts of them that are reached.

    Parameters
    ----------
    name
        For messages.
    flops_per_s
        Peak dense operations/s by arithmetic.
    bytes_per_s, memory_bytes
        Peak bandwidth and capacity of its memory.
    efficiency
        Parts of the peaks that are reached.

    Raises
    ------
    InstanceError
        A peak, a bandwidth or a capacity that is not above 0.

    >>> h100 = Machine.of("H100")
    >>> round(h100.time_s(Work(flops=0.0, bytes=3.35e12)), 6)  # a second of peak traffic takes 1 / 0.8
    1.25
    """

    name: str
    flops_per_s: Mapping[str, float]
    bytes_per_s: float
    memory_bytes: float
    efficiency: Efficiency = field(default_factory=Efficiency)

    def __post_init__(self) -> None:
        check = Violations()
        for dtype, peak in self.flops_per_s.items():
            positive(check, **{f"flops_per_s[{dtype}]": peak})
        positive(check, bytes_per_s=self.bytes_per_s, memory_bytes=self.memory_bytes)
        check.raise_if_any()

    @classmethod
    def of(cls, gpu: str, *, efficiency: Efficiency | None = None, bytes_per_s: float | None = None) -> Machine:
        """A GPU of the table (`moeopt.llm.find_gpu`); `bytes_per_s` where a source takes another bandwidth.

        Raises
        ------
        InstanceError
            An unknown GPU, or one whose bandwidth or capacity no source confirms.
        """
        row = find_gpu(gpu)
        check = Violations(row.name)
        bandwidth = row.bytes_per_s if bytes_per_s is None else bytes_per_s
        for name, value in (("bytes_per_s", bandwidth), ("memory_bytes", row.memory_bytes)):
            if value is None:
                check.add(name, "not known", rule="no source confirms it", fix="Build a Machine from your own figures")
        check.raise_if_any()
        assert bandwidth is not None and row.memory_bytes is not None
        peaks = {dtype: tflops * 1e12 for dtype, tflops in row.dense_tflops.items() if tflops is not None}
        return cls(row.name, peaks, bandwidth, row.memory_bytes, efficiency or Efficiency())

    def peak(self, dtype: str) -> float:
        """Peak operations/s in this arithmetic; an `InstanceError` where the GPU has none, or none is confirmed."""
        if dtype not in self.flops_per_s:
            check = Violations(self.name)
            fix = f"Use {' or '.join(self.flops_per_s) or 'your own figures'}"
            check.add("dtype", dtype, rule="has no confirmed peak on this GPU", fix=fix)
            check.raise_if_any()
        return self.flops_per_s[dtype]

    def compute_s(self, work: Work) -> float:
        """Seconds of its operations alone."""
        return work.flops / (self.peak(work.dtype) * self.efficiency.compute)

    def memory_s(self, work: Work) -> float:
        """Seconds of its bytes alone."""
        return work.bytes / (self.bytes_per_s * self.efficiency.memory)

    def time_s(self, work: Work) -> float:
        """Seconds of one operator: ``max(flops / (e_c F), bytes / (e_m B))``.

        Strength: model (Williams, Waterman, Patterson, CACM 52, 2009), a floor for kernels with these parts of
        the peaks. Measured MoE kernels take some 35 us more each, and small experts reach less of the peak.
        """
        return max(self.compute_s(work), self.memory_s(work))

    def bound(self, work: Work) -> str:
        """``compute`` or ``memory``, whichever takes longer; of equals ``compute``."""
        return "compute" if self.compute_s(work) >= self.memory_s(work) else "memory"

    def usable_bytes(self) -> float:
        """Capacity for weights and cache."""
        return self.memory_bytes * self.efficiency.usable_memory


@checked
def operators_s(machine: Machine, works: Iterable[Work]) -> float:
    """Operators one after another: the sum of their times, not the maximum of summed FLOPs and summed bytes.

    On a GPU the next operator waits for the one before it; reading a cache does not overlap with a later matrix
    product. Source: lecture notes on MoE inference, section 2.2.

    >>> machine = Machine.of("H100")
    >>> operators_s(machine, [Work(1e12, 1e9), Work(1e9, 1e9)]) > operators_s(machine, [Work(1e12, 2e9)])
    True
    """
    return sum(machine.time_s(work) for work in works)


@checked
def utilisation(machine: Machine, works: Iterable[Work]) -> float:
    """Part of peak FLOP/s that these operators use, one after another; 0.0 if nothing is to be done.

    >>> h100 = Machine.of("H100")
    >>> round(utilisation(h100, [Work(989e12, 0.0), Work(0.0, 3.35e12)]), 3)  # 1 / (1/0.7 + 1/0.8)
    0.373
    """
    done = list(works)
    total = operators_s(machine, done)
    return sum(work.flops / machine.peak(work.dtype) for work in done) / total if total else 0.0


@checked
def compute_bound_batch(tokens_an_expert: Number, *, experts: int, top_k: int) -> float:
    """Whole batch at which each expert gets so many tokens on average: ``tokens E / k``.

    `tokens_an_expert` is the number that each expert is to get.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Strength: exact mean; source: MegaScale-Infer (arXiv 2504.02263), section 2.3. `compute_bound_tokens` gives the
    tokens an expert needs.

    >>> compute_bound_batch(156, experts=128, top_k=8)  # Qwen3-235B on an A100
    2496.0
    """
    check = Violations()
    positive(check, tokens_an_expert=tokens_an_expert)
    top_k_of(check, experts=experts, top_k=top_k)
    check.raise_if_any()
    return float(tokens_an_expert) * experts / top_k


@checked
def expert_utilisation(*, batch: Number, tokens_an_expert: Number, experts: int, top_k: int) -> float:
    """Part of the reachable FLOP/s that experts use at this batch: ``min(1, (batch k / E) / tokens_an_expert)``.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Strength: model: all experts are read, each gets the mean. Source: MegaScale-Infer, section 2.3.

    >>> expert_utilisation(batch=156, tokens_an_expert=156, experts=8, top_k=2)
    0.25
    """
    check = Violations()
    not_negative(check, batch=batch)
    with check.within():
        full = compute_bound_batch(tokens_an_expert, experts=experts, top_k=top_k)
    check.raise_if_any()
    return min(1.0, float(batch) / full)
