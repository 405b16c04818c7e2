"""Rules of a shape: what divides what, blocks of scales, nodes, stages, stock; all broken ones together.

Strength: exact for what a shape can be at all. What one engine refuses besides is `moeopt.mesh.legal`; what does not
fit in memory is `moeopt.mesh.memory`. Some engines pad widths or heads that do not divide: that is not modelled here.
"""

from __future__ import annotations

from collections.abc import Mapping

from moeopt.cost.checks import whole
from moeopt.cost.roofline import Numerics
from moeopt.errors import Violation, Violations
from moeopt.llm.facts import LlmFacts
from moeopt.mesh.degrees import (
    MOST_DEGREE,
    Degrees,
    allowed_moe_tp,
    allowed_tp,
    cp_reasons,
    dense_reasons,
    divisors,
    kvp_reasons,
    moe_tp_reasons,
    nearest,
    tp_reasons,
)
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.shape import ROLES, ApartShape, Shape

__all__ = ["Degrees", "allowed_moe_tp", "allowed_tp", "divisors", "faults"]

_DEGREES = ("pp", "tp", "dp", "cp", "kvp", "ep", "moe_tp", "dense_tp")


def faults(
    shape: Shape | ApartShape,
    llm: LlmFacts,
    gpu: GpuType,
    numerics: Numerics | None = None,
    *,
    expert_gpu: GpuType | None = None,
) -> list[Violation]:
    """Everything that a shape breaks, with the nearest values that would do; empty for one that can exist.

    Parameters
    ----------
    shape, llm
        What is cut up how.
    gpu, expert_gpu
        Type of GPU of the shape; of the experts' side, where experts are apart (default: the same).
    numerics
        How weights are stored; ``None``: as in the checkpoint.

    Examples
    --------
    >>> from moeopt.llm import find
    >>> h800 = GpuType.of("H800", stock=320)
    >>> faults(Shape("decode", "H800", tp=4, dp=80, ep=320, redundant=64), find("deepseek-v3"), h800)
    []
    >>> for fault in faults(Shape("decode", "H800", tp=3, dp=4, ep=6, moe_tp=2), find("deepseek-v3"), h800):
    ...     print(fault)
    tp = 3: 128 heads do not divide by 3. Use 2 or 4.
    ep = 6: must divide experts + redundant = 256. Use 4 or 8, or 2 redundant experts.
    ep x moe_tp = 6 x 2: an expert cannot be split where its EP group spans nodes of 8. Use EP 12, MoE-TP 1.
    tp x dp x cp x kvp = 12: a stage beyond one node takes whole nodes of 8. Use 8 or 16.
    """
    if isinstance(shape, ApartShape):
        return _apart(shape, llm, gpu, expert_gpu or gpu, numerics)
    check = Violations()
    degrees = {name: getattr(shape, name) for name in _DEGREES}
    if shape.ffn_gpus is not None:
        degrees["ffn_gpus"] = shape.ffn_gpus
    if not _sane(check, degrees, shape.redundant):
        return check.found
    _role(check, shape, gpu)
    for name, reasons in (("cp", cp_reasons(llm, shape.cp)), ("kvp", kvp_reasons(llm, shape.kvp))):
        for reason in reasons:
            check.add(name, getattr(shape, name), rule=reason, fix="Use 1")
    _attention(check, llm, shape.tp, numerics)
    _experts(check, shape, llm, numerics)
    _dense(check, shape, llm, numerics)
    _places(check, shape, llm, gpu)
    return check.found


def _sane(check: Violations, degrees: Mapping[str, int], redundant: int) -> bool:
    """Whether degrees are whole numbers within reason, so that anything can be said of them."""
    if all(type(value) is int and 1 <= value <= MOST_DEGREE for value in (*degrees.values(), redundant + 1)):
        return True  # the common case, without the cost of the general check: a search asks thousands of times
    whole(check, **degrees)
    whole(check, 0, redundant=redundant)
    if not check.found:
        for name, value in {**degrees, "redundant": redundant}.items():
            if value > MOST_DEGREE:
                check.add(name, value, rule=f"is above {MOST_DEGREE:,}", fix="Use fewer GPUs")
    return not check.found


def _role(check: Violations, shape: Shape, gpu: GpuType) -> None:
    if shape.role not in ROLES:
        check.add("role", shape.role, rule=f"is not one of {', '.join(ROLES)}", fix="Use one of these")
    if shape.gpu != gpu.name:
        check.add("gpu", shape.gpu, rule=f"is not the GPU that is asked about, {gpu.name}", fix=f"Use {gpu.name}")
    if shape.cp > 1 and shape.role in ("decode", "long"):
        check.add("cp", shape.cp, rule="splits the tokens of a prompt, and none is computed here", fix="Use 1, or kvp")
    if shape.kvp > 1 and shape.role == "prefill":
        check.add("kvp", shape.kvp, rule="splits a cache that is read token by token", fix="Use 1, or cp")
    if shape.ffn_gpus is not None and shape.role != "long":
        check.add("ffn_gpus", shape.ffn_gpus, rule="belongs to the role long", fix="Leave it out")


def _attention(check: Violations, llm: LlmFacts, tp: int, numerics: Numerics | None, field: str = "tp") -> None:
    reasons = tp_reasons(llm, tp, numerics)
    if reasons:
        heads = llm.attention.heads or 1
        fix = nearest(tp, (degree for degree in divisors(heads) if not tp_reasons(llm, degree, numerics)))
        for reason in reasons:
            check.add(field, tp, rule=reason, fix=fix)


def _experts(check: Violations, shape: Shape, llm: LlmFacts, numerics: Numerics | None) -> None:
    spread = shape.ffn_gpus if shape.ffn_gpus is not None else shape.stage_gpus
    if shape.ffn_gpus is not None and shape.stage_gpus % shape.ffn_gpus:
        fix = nearest(shape.ffn_gpus, divisors(shape.stage_gpus))
        check.add("ffn_gpus", shape.ffn_gpus, rule=f"must divide the stage's {shape.stage_gpus} GPUs", fix=fix)
    if llm.dense:
        for name in ("ep", "moe_tp"):
            if getattr(shape, name) > 1:
                check.add(name, getattr(shape, name), rule="this LLM is dense, it has no experts", fix="Use 1")
        if shape.redundant:
            check.add("redundant", shape.redundant, rule="this LLM is dense, it has no experts", fix="Use 0")
        return
    if shape.ep * shape.moe_tp != spread:
        product(check, shape.ep, shape.moe_tp, spread, llm)
    _slots(check, llm, shape.ep, shape.redundant)
    _moe_tp(check, llm, shape.moe_tp, numerics)


def product(check: Violations, ep: int, moe_tp: int, spread: int, llm: LlmFacts, where: str = "") -> None:
    """Note that degrees of experts do not make up the GPUs that hold a stage's experts, and those that do."""
    fits = [degree for degree in divisors(spread) if llm.experts is not None and llm.experts % degree == 0]
    options = [f"EP {fits[-1]}, MoE-TP {spread // fits[-1]}"] if fits else []
    if spread % moe_tp == 0:
        options.append(f"EP {spread // moe_tp}, MoE-TP {moe_tp}")
    rule = f"moe_tp x moe_ep must be {spread}, the GPUs that hold a stage's experts, and is {ep * moe_tp}"
    fix = f"Use {' or '.join(dict.fromkeys(options))}" if options else ""
    check.add("ep x moe_tp", f"{ep} x {moe_tp}", rule=rule, fix=fix, where=where)


def _slots(check: Violations, llm: LlmFacts, ep: int, redundant: int, field: str = "ep") -> None:
    experts = llm.experts
    if experts is None:
        check.add("experts", "not known", rule="no source confirms how many there are", fix="Give the config.json")
        return
    if llm.top_k is not None and llm.top_k > experts:
        rule = f"a token cannot select more than the {experts} experts there are"
        check.add("top_k", llm.top_k, rule=rule, fix=f"Use at most {experts}")
    slots = experts + redundant
    if slots % ep:
        more = -slots % ep + redundant
        rest = f", or {more} redundant experts" if more <= experts * (ep - 1) else ""
        fix = f"{nearest(ep, divisors(slots))}{rest}"
        check.add(field, ep, rule=f"must divide experts + redundant = {slots}", fix=fix)
    elif redundant > experts * (ep - 1):
        most = experts * (ep - 1)
        rule = f"each of the {ep} GPUs holds an expert once at most"
        check.add("redundant", redundant, rule=rule, fix=f"Use at most {most}")


def _moe_tp(check: Violations, llm: LlmFacts, moe_tp: int, numerics: Numerics | None, field: str = "moe_tp") -> None:
    reasons = moe_tp_reasons(llm, moe_tp, numerics)
    if reasons:
        width = llm.expert_width or 1
        fits = [degree for degree in divisors(width) if not moe_tp_reasons(llm, degree, numerics)]
        check.add(field, moe_tp, rule="; ".join(reasons), fix=f"{nearest(moe_tp, fits)}, and more EP")


def _dense(check: Violations, shape: Shape, llm: LlmFacts, numerics: Numerics | None) -> None:
    if shape.stage_gpus % shape.dense_tp:
        fix = nearest(shape.dense_tp, divisors(shape.stage_gpus))
        check.add("dense_tp", shape.dense_tp, rule=f"must divide the stage's {shape.stage_gpus} GPUs", fix=fix)
    if shape.dense_tp == 1:
        return
    reasons = dense_reasons(llm, shape.dense_tp, numerics)
    if reasons:
        fits = [degree for degree in divisors(shape.stage_gpus) if not dense_reasons(llm, degree, numerics)]
        check.add("dense_tp", shape.dense_tp, rule="; ".join(reasons), fix=nearest(shape.dense_tp, fits))


def _places(check: Violations, shape: Shape, llm: LlmFacts, gpu: GpuType) -> None:
    if shape.pp > llm.layers:
        rule = f"each stage needs a layer, and there are {llm.layers}"
        check.add("pp", shape.pp, rule=rule, fix=f"Use at most {llm.layers}")
    whole_gpus, held = max(gpu.node_gpus, gpu.domain_gpus), shape.ep * shape.moe_tp
    if shape.ep > 1 and shape.moe_tp > 1 and held > whole_gpus and not llm.dense:
        rule = f"an expert cannot be split where its EP group spans nodes of {whole_gpus}"
        check.add("ep x moe_tp", f"{shape.ep} x {shape.moe_tp}", rule=rule, fix=f"Use EP {held}, MoE-TP 1")
    stage = shape.stage_gpus
    if stage > whole_gpus and stage % gpu.node_gpus:
        low = stage // gpu.node_gpus * gpu.node_gpus
        rule = f"a stage beyond one node takes whole nodes of {gpu.node_gpus}"
        check.add("tp x dp x cp x kvp", stage, rule=rule, fix=f"Use {low} or {low + gpu.node_gpus}")
    if shape.gpus > gpu.domain_gpus and gpu.network is None:
        rule = f"no network is known between domains of {gpu.domain_gpus}"
        check.add("gpus", shape.gpus, rule=rule, fix=f"Use at most {gpu.domain_gpus}, or give the network's Link")
    _stock(check, shape.gpus, gpu)


def _stock(check: Violations, needed: int, gpu: GpuType) -> None:
    if gpu.stock is not None and needed > gpu.stock:
        rule = f"one replica needs more than the {gpu.stock} of {gpu.name} there are"
        check.add("gpus", needed, rule=rule, fix=f"Use at most {gpu.stock}")


def _apart(
    shape: ApartShape, llm: LlmFacts, gpu: GpuType, expert_gpu: GpuType, numerics: Numerics | None
) -> list[Violation]:
    check = Violations()
    degrees = {name: getattr(shape, name) for name in ("tp_a", "n_a", "tp_e", "n_e", "m")}
    if not _sane(check, degrees, shape.redundant):
        return check.found
    if llm.dense:
        check.add("experts", 0, rule="this LLM is dense: there is nothing to set apart", fix="Use another family")
        return check.found
    for field, name, one in (("gpu", shape.gpu, gpu), ("expert_gpu", shape.expert_gpu, expert_gpu)):
        if name != one.name:
            check.add(field, name, rule=f"is not the GPU that is asked about, {one.name}", fix=f"Use {one.name}")
    _attention(check, llm, shape.tp_a, numerics, "tp_a")
    for reason in dense_reasons(llm, shape.tp_a, numerics):
        fits = [degree for degree in divisors(shape.tp_a) if not dense_reasons(llm, degree, numerics)]
        check.add("tp_a", shape.tp_a, rule=reason, fix=nearest(shape.tp_a, fits))
    _slots(check, llm, shape.n_e, shape.redundant, "n_e")
    _moe_tp(check, llm, shape.tp_e, numerics, "tp_e")
    if gpu.name == expert_gpu.name:
        _stock(check, shape.gpus, gpu)
    else:
        _stock(check, shape.attention_gpus, gpu)
        _stock(check, shape.expert_gpus, expert_gpu)
    joined = min(gpu.domain_gpus, expert_gpu.domain_gpus) if gpu.name == expert_gpu.name else 0
    for one in {gpu.name: gpu, expert_gpu.name: expert_gpu}.values():
        if shape.gpus > joined and one.network is None:
            rule = f"no network of {one.name} is known to join both sides"
            check.add("gpus", shape.gpus, rule=rule, fix="Give the network's Link")
    return check.found
