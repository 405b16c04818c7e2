"""Sizing of an instance whose attention and experts are apart: balance, price, and the context to plan for.

Source throughout: MegaScale-Infer, arXiv 2504.02263, section 4; the symbols are those of `moeopt.cost.disaggregated`.
"""

from __future__ import annotations

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, positive, top_k_of, whole
from moeopt.errors import Violations


@checked
def mean_context(*, input_tokens: Number, output_tokens: Number) -> float:
    """Mean context over the decoding of a request: its input and half of its output, tokens.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Strength: exact mean over the steps, up to half a token; source: the 651 of section 7's medians, 571 and 159.

    >>> mean_context(input_tokens=571, output_tokens=159)
    650.5
    """
    check = Violations()
    not_negative(check, input_tokens=input_tokens, output_tokens=output_tokens)
    check.raise_if_any()
    return float(input_tokens) + float(output_tokens) / 2


@checked
def balanced_nodes(*, attention_slope_s: Number, expert_slope_s: Number, experts: int, top_k: int) -> float:
    """Attention nodes at which both sides take equally long: ``n_a = k1 E / (k3 k)``.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    attention_slope_s, expert_slope_s
        k1 and k3: seconds that one more sequence costs an attention node, and one more token an expert node.

    Notes
    -----
    Strength: asymptotic: constants of both sides are left out, so it holds for large micro-batches. Throughput a GPU
    may peak above it, since the round trip limits before the experts are busy. Source: section 4.3.

    >>> balanced_nodes(attention_slope_s=2e-6, expert_slope_s=4e-6, experts=16, top_k=4)
    2.0
    """
    check = Violations()
    positive(check, attention_slope_s=attention_slope_s, expert_slope_s=expert_slope_s)
    top_k_of(check, experts=experts, top_k=top_k)
    check.raise_if_any()
    return float(attention_slope_s) * experts / (float(expert_slope_s) * top_k)


@checked
def instance_price(
    *, nodes: int, tp_a: int, tp_e: int, experts: int, attention_price: Number, expert_price: Number
) -> float:
    """Price of an instance: ``tp_a n_a price_a + tp_e E price_e``, in the unit of the prices; 1 and 1 count GPUs.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    >>> instance_price(nodes=4, tp_a=2, tp_e=1, experts=16, attention_price=1, expert_price=1)
    24.0
    """
    check = Violations()
    whole(check, nodes=nodes, tp_a=tp_a, tp_e=tp_e, experts=experts)
    not_negative(check, attention_price=attention_price, expert_price=expert_price)
    check.raise_if_any()
    return tp_a * nodes * float(attention_price) + tp_e * experts * float(expert_price)


@checked
def per_price(amount: Number, price: Number) -> float:
    """What one unit of price buys: bandwidth, FLOP/s, memory, or tokens/s (section 4.4, table 3).

    `amount` is anything that is had for the price, such as tokens a second.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    >>> round(per_price(4096, 1.85) / per_price(864, 1.08), 2)  # memory bandwidth, H20 over L40S
    2.77
    """
    check = Violations()
    not_negative(check, amount=amount)
    positive(check, price=price)
    check.raise_if_any()
    return float(amount) / float(price)
