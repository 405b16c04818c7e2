"""Every public cost function, each argument replaced by what it is not: a finite answer or an `InstanceError`."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from moeopt import cost
from moeopt.cost import BF16, Copies, Fabric, Link, Machine, Split, Work
from moeopt.errors import InstanceError
from moeopt.llm import find
from moeopt.llm.layer_kinds import LayerKind
from tests.cost.test_numpy_numbers import CALLS

LINK = Link(2e-6, 360e9)
H100 = Machine.of("H100")
LARGE = (1e308, 1e-320)
BAD: tuple[Any, ...] = (
    None,
    "x",
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    True,
    [],
    [1],
    [None],
    ["x"],
    [math.nan],
    {},
    object(),
    3,
    1.5,
    b"x",
    Fraction(1, 3),
    np.int64(3),
    np.float32(0.5),
    np.float64("nan"),
    np.bool_(True),
    np.array([1, 2]),
    *LARGE,
)
NAMED: dict[str, Any] = {
    "facts": find("deepseek-v3"),
    "machine": H100,
    "link": LINK,
    "numerics": BF16,
    "sequences": 16,
    "context_tokens": 64,
    "new_tokens": 32,
    "tokens": 8,
    "tokens_an_expert": 5,
    "batch": 8,
    "experts": 8,
    "top_k": 2,
    "hidden": 64,
    "width": 32,
    "ranks": 2,
    "nodes": 2,
    "tp": 1,
    "tp_a": 1,
    "tp_e": 1,
    "tpa": 1,
    "kvp": 1,
    "ep": 8,
    "acceptance": [0.5, 0.4],
    "attention_slope_s": 1e-6,
    "expert_slope_s": 1e-6,
    "lengths": [1.5, 1.9],
    "draft_s": 0.1,
    "verify_s": lambda _: 1.0,
    "sent_bytes": [[0, 5], [3, 0]],
    "send_bytes_per_s": 1e9,
    "flops_per_s": 1e15,
    "bytes_per_s": 1e12,
    "gpu": "H100",
    "dtype": "bf16",
    "intermediate": 64,
    "size_bytes": 1e6,
    "ratio": 2,
    "quantize_s": 1e-6,
    "dequantize_s": 1e-6,
    "flops": 1e15,
    "bytes_per_param": 2.0,
    "requests": 10,
    "target": [0.5, 0.5],
    "draft": [0.25, 0.75],
    "bytes_per_expert": 10,
    "routing": [[0, 1], [1, 2]],
    "params": 1e9,
    "memory_bytes": 80e9,
    "weights_bytes": 1e9,
    "kv_bytes_per_sequence": 1e6,
    "attention_price": 1,
    "expert_price": 1,
    "attention_port": LINK,
    "input_tokens": 5,
    "output_tokens": 5,
    "units": 2,
    "mean": 5.0,
    "works": [Work(1e9, 1e9)],
    "amount": 5,
    "price": 2,
    "home": [0, 1],
    "gpu_of_expert": [0, 0, 1],
    "gpus": 2,
    "weights": [1.0, 2.0, 3.0],
    "interference_s": 1,
    "handoff_s": 1,
    "count": 5,
    "chances": [0.5, 0.5, 1.0],
    "sizes": [2, 2],
    "bits_per_s": 1e9,
    "exponent": 1.0,
    "op": "all_reduce",
    "block": 16,
    "fabric": Fabric(16, 2, LINK, LINK),
    "flat": Copies(Fraction(1), Fraction(1)),
    "attention": H100,
    "split": Split(1, 1, 1),
    "staged": Copies(Fraction(1), Fraction(1)),
    "token_bytes": 64,
    "kind": LayerKind(),
}
OF_ITS_OWN: dict[str, dict[str, Any]] = {
    "stage_times": {"facts": find("dbrx"), "experts": H100, "context_tokens": 64},
    "estimate_dp_skew": {"lengths": [5, 3, 8], "draws": 5},
    "estimate_max_over_mean": {"units": [0, 0, 1], "draws": 5},
    "hottest_over_mean": {"units": [0, 0, 1]},
    "expert_counts": {"experts": 4},
    "helix_sequences": {"facts": find("llama-3.1-405b")},
    "helix_decode": {"facts": find("llama-3.1-405b"), "machine": Machine.of("B200")},
    "linear_decode": {"facts": find("kimi-k3")},
    "linear_prefill": {"facts": find("kimi-k3")},
    "merge_s": {"facts": find("llama-3.1-405b")},
}


def arguments(function: Any) -> dict[str, Any]:
    """Good arguments of a function, by name."""
    shape = inspect.signature(function)
    for call, places, names in CALLS:
        if call is function:
            return dict(shape.bind(*places, **names).arguments)
    own = OF_ITS_OWN.get(function.__name__, {})
    needed = [name for name, one in shape.parameters.items() if one.default is one.empty]
    return {name: own.get(name, NAMED.get(name)) for name in needed} | own


def called(function: Any, given: dict[str, Any]) -> Any:
    shape = inspect.signature(function)
    bound = shape.bind_partial()
    bound.arguments.update({name: given[name] for name in shape.parameters if name in given})
    return function(*bound.args, **bound.kwargs)


def finite(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(np.isfinite(value).all())
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, tuple | list):
        return all(map(finite, value))
    if is_dataclass(value):
        return all(finite(getattr(value, field.name)) for field in fields(value))
    return True


FUNCTIONS = [getattr(cost, name) for name in cost.__all__ if inspect.isfunction(getattr(cost, name))]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_any_argument_gives_a_finite_answer_or_is_refused(function: Any) -> None:
    good = arguments(function)
    assert finite(called(function, good))
    wrong = []
    for name in inspect.signature(function).parameters:
        for bad in BAD:
            try:
                if not finite(called(function, {**good, name: bad})):
                    wrong.append(f"{name} = {bad!r}: not finite")
            except InstanceError:
                continue
            except Exception as error:
                wrong.append(f"{name} = {str(bad)[:30]}: {type(error).__name__}: {str(error)[:80]}")
    assert not wrong, "\n".join(wrong)
