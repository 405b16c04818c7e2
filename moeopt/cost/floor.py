"""Tokens below which an expert's matrix product gets no faster: its weights have to be read anyhow."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import fraction, positive
from moeopt.errors import Violations
from moeopt.llm.gpus import GPUS, find_gpu

BYTES = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""Bytes of one weight by data type; scales of blocks, a few per cent, are left out."""
COMPUTE_EFFICIENCY, MEMORY_EFFICIENCY = 0.7, 0.8
"""Parts of the peak figures that grouped matrix products reach. Not measured here: with these two an H100 needs 258
tokens an expert, the threshold printed in a lecture on MoE inference that gives no factors itself."""


@dataclass(frozen=True)
class Floor:
    """A floor and what it was computed from."""

    tokens: float
    gpu: str
    dtype: str
    dense_tflops: float
    bytes_per_s: float
    source: str

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.tokens:.0f} tokens a pass: an expert in {self.dtype} on {self.gpu} reads its weights at "
            f"{self.bytes_per_s * MEMORY_EFFICIENCY / 1e12:.3g} TB/s and computes at "
            f"{self.dense_tflops * COMPUTE_EFFICIENCY:.4g} TFLOP/s ({MEMORY_EFFICIENCY} and {COMPUTE_EFFICIENCY} of "
            f"the peaks; {self.source})"
        )


@checked
def compute_bound_tokens(
    flops: float,
    bytes_per_s: float,
    bytes_per_param: float,
    *,
    compute_efficiency: float = 1.0,
    memory_efficiency: float = 1.0,
) -> float:
    """Tokens at which computing takes as long as reading the weights, whatever the size of the expert.

    `flops` and `bytes_per_s` are the peaks of the GPU, of which the efficiencies are reached.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Reading P weights takes ``P bytes_per_param / bandwidth``; n tokens through them take ``2 n P / flops``. Equal at
    ``n = bytes_per_param flops / (2 bandwidth)``.

    >>> round(compute_bound_tokens(989e12, 3.35e12, 2.0, compute_efficiency=0.7, memory_efficiency=0.8), 1)
    258.3
    """
    check = Violations()
    positive(check, flops=flops, bytes_per_s=bytes_per_s, bytes_per_param=bytes_per_param)
    fraction(check, compute_efficiency=compute_efficiency, memory_efficiency=memory_efficiency)
    check.raise_if_any()
    return bytes_per_param * flops * compute_efficiency / (2 * bytes_per_s * memory_efficiency)


@checked
def floor_of(gpu: str, dtype: str) -> Floor:
    """The floor of a GPU of the table and a data type of weights and arithmetic.

    `gpu` and `dtype` go by the names of the table.

    Raises
    ------
    InstanceError
        An unknown GPU or data type, or one whose peak or bandwidth no source confirms.

    >>> print(floor_of("H800", "fp8"))
    258 tokens a pass: an expert in fp8 on H800 reads its weights at 2.68 TB/s and computes at 1385 TFLOP/s (0.8 and 0.7 of the peaks; winzheng.com, review of deploying DeepSeek-R1 on H20 (table of H20 and H800))
    >>> floor_of("A100", "fp8")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: floor_dtype = fp8: the peak of A100 in fp8 is not confirmed by any source. Use bf16 or int8, or give floor_tokens.
    """  # noqa: E501
    check = Violations()
    row = find_gpu(gpu) if str(gpu).lower() in map(str.lower, GPUS) else None
    if row is None:
        check.add("floor_gpu", gpu, rule=f"is not one of {', '.join(GPUS)}", fix="Use one of these, or floor_tokens")
    if dtype not in BYTES:
        check.add("floor_dtype", dtype, rule=f"is not one of {', '.join(BYTES)}", fix="Use fp8")
    check.raise_if_any()
    assert row is not None
    peak, bandwidth = row.dense_tflops[dtype], row.bytes_per_s
    known = [name for name, value in row.dense_tflops.items() if value is not None]
    if bandwidth is None or not known:
        rule = "has no confirmed peak or memory bandwidth"
        check.add("floor_gpu", row.name, rule=rule, fix="Measure it, and give floor_tokens")
    elif peak is None:
        rule = f"the peak of {row.name} in {dtype} is not confirmed by any source"
        check.add("floor_dtype", dtype, rule=rule, fix=f"Use {' or '.join(known)}, or give floor_tokens")
    check.raise_if_any()
    assert peak is not None and bandwidth is not None
    tokens = compute_bound_tokens(
        peak * 1e12,
        bandwidth,
        BYTES[dtype],
        compute_efficiency=COMPUTE_EFFICIENCY,
        memory_efficiency=MEMORY_EFFICIENCY,
    )
    return Floor(tokens, row.name, dtype, peak, bandwidth, row.source)
