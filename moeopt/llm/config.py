"""Read ``config.json`` of a checkpoint: which family it is, then its facts by the table of families."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moeopt import kinds
from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, Violation, Violations
from moeopt.llm.attention import KINDS
from moeopt.llm.facts import Attention, LlmFacts
from moeopt.llm.families import BY_NAME, FAMILIES, Family
from moeopt.llm.layouts import RULES
from moeopt.llm.precision import formats_of
from moeopt.llm.reading import MOST_LAYERS, Reader

NESTED = ("text_config", "language_config", "llm_config")
"""Where models that also see or hear keep the LLM's own keys."""
OWN_FORMAT = ("dim", "n_layers", "n_routed_experts")
"""Keys that tell DeepSeek's own short format, which has no ``model_type``."""
QUANTIZED = re.compile(r"nvfp4|mxfp4|fp8|fp4|int4|int8|awq|gptq|w4a16|w8a8", re.IGNORECASE)
"""Words in a name that promise quantized weights."""
DISPATCH_BLOCK = 128
"""DeepEP asserts that what it sends in FP8 is a multiple of this: a scale goes with so many elements."""
PLAIN = ("model_type", "torch_dtype", "dtype", "expert_dtype", "quantization_config", "_name_or_path", *NESTED)
"""Keys that are read apart from the table."""


@kinds.expects(path=kinds.path)
def read_config(path: str | Path, name: str | None = None) -> LlmFacts:
    """Facts of the LLM that a ``config.json`` describes.

    Parameters
    ----------
    path
        The file, or the folder of a checkpoint; ``-`` is standard input. ``hf_quant_config.json`` beside it decides on
        formats of weights where there is one. DeepSeek's own short format is read too.
    name
        What to call it; else the folder's or the file's name.

    Raises
    ------
    InstanceError
        Not JSON, a family that is not in `moeopt.llm.families` (with the nearest one that is), or keys that are
        missing, of a wrong type, or contradict each other: all at once.

    Examples
    --------
    >>> from pathlib import Path; from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "config.json")
    ...     _ = file.write_text('{"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 64, '
    ...         '"vocab_size": 100, "num_attention_heads": 4, "num_local_experts": 8, "num_experts_per_tok": 2, '
    ...         '"intermediate_size": 128}')
    ...     facts = read_config(file, "tiny")
    >>> facts.experts, facts.moe_layers, facts.expert_width, str(facts.attention)
    (8, (0, 1, 2, 3), 128, 'mha 4/4')
    """
    file = Path(path)
    if str(path) != "-" and file.is_dir():
        file = file / "config.json"
    config = read_json(read_bytes(file if str(path) != "-" else "-"), str(path))
    beside = file.with_name("hf_quant_config.json")
    quantization = None
    if str(path) != "-" and file.name == "config.json" and beside.is_file():
        quantization = read_json(read_bytes(beside), str(beside))
    if name is None:
        name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return facts_of(config, name=name, source=str(path), quantization=quantization)


def facts_of(
    config: Any, *, name: str = "", source: str = "", quantization: Mapping[str, Any] | None = None
) -> LlmFacts:
    """Facts of a parsed configuration; see `read_config`.

    `config` is the parsed ``config.json``, `quantization` a file of its own beside it; `name` and `source` are carried
    along.

    >>> facts_of({"model_type": "mixtrall"})
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: model_type = mixtrall: is not a family this version knows. Did you mean mixtral?
    """
    if not isinstance(config, Mapping):
        rule = "must be a JSON object, as config.json of a checkpoint is"
        raise InstanceError([Violation("config", "", type(config).__name__, rule, "Give that file")], source)
    flat = dict(config)
    for key in NESTED:
        if isinstance(config.get(key), Mapping):
            flat.update(config[key])
            break
    family_name, family = _family(config, flat, source)
    check = Violations(source)
    reader = Reader(flat, family, check)
    layers = reader.sure("layers")
    if layers > MOST_LAYERS:
        check.add(reader.raw("layers")[0], layers, rule=f"must be at most {MOST_LAYERS:,}", fix="Check the number")
        check.raise_if_any()
    reader.layers = layers
    dense = set(RULES[family.dense](reader))
    moe = tuple(layer for layer in range(layers) if layer not in dense)
    found: dict[str, Any] = {
        "layers": layers,
        "dense_layers": tuple(sorted(dense)),
        "moe_layers": moe,
        "hidden": reader.sure("hidden"),
        "vocab": reader.sure("vocab"),
        "context": reader.whole("context", None),
        "tie_embeddings": reader.flag("tie", False),
        "mtp_layers": _mtp(reader),
        "dense_width": reader.sure("dense_width") if dense else reader.whole("dense_width", None),
        "attention": _attention(reader),
        **_experts(reader, bool(moe)),
    }
    check.raise_if_any()
    weights, experts, notes = formats_of(flat, quantization)
    hashed = reader.whole("hashed", 0, least=0) or 0
    if hashed:
        notes.append(f"the first {hashed} layers route by a hash of the token, not by the router")
    if found.get("parallel_dense"):
        more = layers * 3 * found["hidden"] ** 2 / 1e9
        notes.append(
            "a dense MLP runs beside the experts whose width no key gives: it is not counted "
            f"({more:.2f} billion parameters if it is as wide as a token)"
        )
    sent = found.get("dispatch_width") or DISPATCH_BLOCK
    if sent % DISPATCH_BLOCK:
        notes.append(
            f"{sent} elements are dispatched, no multiple of {DISPATCH_BLOCK}: DeepEP's FP8 dispatch needs one"
        )
    form = QUANTIZED.search(name)
    if form is not None and experts in ("bf16", "fp16", "fp32") and moe:
        notes.append(
            f"the name says {form[0]}, the configuration says nothing of it, so the bytes of an expert are not known: "
            "its hf_quant_config.json is missing, or give --expert-dtype"
        )
        experts = None
    return LlmFacts(
        name,
        family_name,
        **found,
        weight_format=weights,
        expert_format=experts if moe else None,
        source=source,
        notes=(*notes, *([family.note] if family.note else [])),
        extra=reader.rest(*PLAIN),
    )


def _family(config: Mapping[str, Any], flat: Mapping[str, Any], source: str) -> tuple[str, Family]:
    told = [kind for kind in (config.get("model_type"), flat.get("model_type")) if isinstance(kind, str)]
    for kind in told:
        if kind in BY_NAME:
            return kind, BY_NAME[kind]
    if not told and all(key in config for key in OWN_FORMAT):
        return "deepseek_inference", BY_NAME["deepseek_inference"]
    if str(config.get("schema", "")).startswith("moeopt/"):
        rule, fix = "is a document of moeopt, not a configuration", "Give config.json of the checkpoint"
        raise InstanceError([Violation("schema", "", str(config["schema"]), rule, fix)], source)
    if not told:
        rule = "is needed: it names the family, and keys mean different things in different families"
        raise InstanceError([Violation("model_type", "", "missing", rule, f"{_alike(flat)}")], source)
    rule = "is not a family this version knows"
    raise InstanceError([Violation("model_type", "", told[0], rule, _nearest(told, flat))], source)


def _nearest(told: list[str], flat: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    near = [match for kind in told for match in get_close_matches(kind.lower(), BY_NAME, n=1, cutoff=0.7)]
    return f"Did you mean {near[0]}?" if near else _alike(flat)


def _alike(flat: Mapping[str, Any]) -> str:
    """The family most of whose keys are there, as a hint for people."""
    shown = [family.names[0] for family in FAMILIES]
    scores = [_share(family, flat) for family in FAMILIES]
    best = max(range(len(FAMILIES)), key=lambda at: scores[at])
    if scores[best] < 0.5:
        return f"Known: {', '.join(shown)}"
    return f"Its keys look most like those of {shown[best]}; if they mean the same, set model_type to that"


def _share(family: Family, flat: Mapping[str, Any]) -> float:
    facts = ["layers", "hidden", "vocab", "heads", *(("experts", "top_k", "expert_width") if family.moe else ())]
    there = [any(key.partition(".")[0] in flat for key in family.keys_of(fact)) for fact in facts]
    if not family.moe and any("expert" in key for key in flat):
        return 0.0
    return sum(there) / len(there)


def _attention(reader: Reader) -> Attention:
    return KINDS[reader.family.attention](reader)


def _mtp(reader: Reader) -> int:
    modules = reader.whole("mtp", 0, least=0) or 0
    if reader.look("use_mtp") is False:
        return 0
    each = reader.look("mtp_transformer_layers")
    return modules * (each if type(each) is int and each > 0 else 1)


def _experts(reader: Reader, moe: bool) -> dict[str, Any]:
    family = reader.family
    if not moe:
        for fact in ("experts", "top_k", "expert_width"):
            reader.raw(fact)  # keys that have a meaning, though not here
        return {"experts": 0, "top_k": 0}
    experts, top_k = reader.sure("experts"), reader.sure("top_k")
    if top_k > experts:
        name = reader.raw("top_k")[0]
        reader.check.add(name, top_k, rule=f"must be at most the {experts} experts", fix="Repair the configuration")
    hidden, width = reader.sure("hidden"), reader.sure("expert_width")
    shared, shared_width = _shared(reader, width)
    groups = reader.whole("groups", None, least=0) or None
    if groups is not None and experts % groups:
        name = reader.raw("groups")[0]
        reader.check.add(name, groups, rule=f"must divide {experts} experts", fix="Repair the configuration")
    return {
        "experts": experts,
        "top_k": top_k,
        "shared_experts": shared,
        "shared_width": shared_width,
        "expert_width": width,
        "dispatch_width": reader.whole("expert_hidden", hidden) or hidden,
        "groups": groups,
        "top_groups": reader.whole("top_groups", None, least=0) or None,
        "expert_bias": bool(family.fixed.get("expert_bias", False)),
        "parallel_dense": bool(reader.flag("parallel_dense", False)) if "parallel_dense" in family.fixed else False,
    }


def _shared(reader: Reader, width: int) -> tuple[int, int | None]:
    """Shared experts and the width of one: counted, or one of a width of its own."""
    if reader.flag("shared_on", True) is False:
        reader.raw("shared_experts")
        return 0, None
    total = reader.whole("shared_total", None, least=0)
    if total is not None:
        return (1, total) if total else (0, None)
    count = reader.whole("shared_experts", int(reader.family.fixed.get("shared_experts", 0)), least=0) or 0
    return count, width if count else None
