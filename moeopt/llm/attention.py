"""How families write their attention down: one reading a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from moeopt.llm.facts import Attention
from moeopt.llm.reading import Reader

WINDOWED = ("sliding_attention", "chunked_attention", "sliding", "local")
"""Words of ``layer_types`` for layers that keep a window."""
INDEXED_RATIO = 4
"""DeepSeek-V4 selects among entries of this many tokens; those of 128 are all attended to."""


def standard(reader: Reader) -> Attention:
    """Keys and values of heads, in all layers or, by ``layer_types`` or a switch, in a window."""
    plain = _heads(reader)
    share = (reader.whole("share", 1) or 1) if reader.look("use_cla") is not False else 1
    window = reader.whole("window", None)
    types = reader.look("layer_types")
    if types is not None:
        listed = _types(reader)
        windowed = [layer for layer, kind in enumerate(listed) if kind in WINDOWED]
    elif window is None or reader.flag("window_on", True) is False:
        windowed = []
    elif reader.family.fixed.get("alternating"):
        windowed = list(range(0, reader.layers, 2))
    else:
        windowed = list(range(reader.whole("window_from", 0, least=0) or 0, reader.layers))
    if windowed and window is None:
        rule = "has layers that keep a window, whose size is missing"
        reader.check.add("layer_types", "...", rule=rule, fix="Give sliding_window")
    return replace(plain, share=share, window=window if windowed else None, windowed=tuple(windowed))


def chunked(reader: Reader) -> Attention:
    """All layers but every fourth keep one chunk; or all that a list marks with 1 (transformers, Llama 4)."""
    plain, window = _heads(reader), reader.whole("window", None)
    listed = reader.items("no_rope") or [(layer + 1) % 4 for layer in range(reader.layers)]
    windowed = tuple(layer for layer, rotary in enumerate(listed) if rotary) if window else ()
    return replace(plain, window=window if windowed else None, windowed=windowed)


def latent(reader: Reader) -> Attention:
    """One latent and one rotary key a token, whatever the number of heads; perhaps an index cache beside it."""
    index = reader.whole("index_dim", None)
    for trap in ("kv_heads", "head_dim"):  # they are there and have nothing to do with the cache
        reader.raw(trap)
    return Attention(
        "mla",
        heads=reader.sure("heads"),
        q_rank=reader.whole("q_rank", None, least=0) or None,
        kv_rank=reader.sure("kv_rank"),
        nope_dim=reader.sure("nope_dim"),
        rope_dim=reader.sure("rope_dim", least=0),
        v_dim=reader.sure("v_dim"),
        index_heads=None if index is None else reader.sure("index_heads"),
        index_dim=index,
        index_layers=() if index is None else tuple(range(reader.layers)),
        index_top_k=None if index is None else reader.whole("index_top_k", None),
    )


def compressed(reader: Reader) -> Attention:
    """One vector for several tokens, by a ratio a layer; the list may go on for layers of multi-token prediction."""
    more = reader.whole("mtp", 0, least=0) or 0
    listed = reader.look("compress_ratios")
    ratios = tuple(listed[: reader.layers]) if isinstance(listed, list) else ()
    whole = all(type(item) is int and item >= 0 for item in ratios)
    if not isinstance(listed, list) or not reader.layers <= len(listed) <= reader.layers + more or not whole:
        rule = f"must be a list of whole numbers, one a layer ({reader.layers}, or {reader.layers + more} with MTP)"
        reader.check.add("compress_ratios", "missing" if listed is None else listed, rule=rule, fix="Repair it")
        ratios = ()
    index = reader.whole("index_dim", None)
    return Attention(
        "compressed",
        heads=reader.sure("heads"),
        kv_heads=reader.whole("kv_heads", 1),
        head_dim=reader.sure("head_dim"),
        q_rank=reader.whole("q_rank", None),
        rope_dim=reader.whole("rope_dim", None),
        window=reader.sure("window"),
        windowed=tuple(range(reader.layers)),
        ratios=ratios,
        out_groups=reader.whole("out_groups", None),
        out_rank=reader.whole("out_rank", None),
        index_heads=reader.whole("index_heads", None),
        index_dim=index,
        index_layers=()
        if index is None
        else tuple(layer for layer, ratio in enumerate(ratios) if ratio == INDEXED_RATIO),
        index_top_k=None if index is None else reader.whole("index_top_k", None),
    )


def hybrid(reader: Reader) -> Attention:
    """Gated delta rule in most layers, full attention with gated queries in every so manyth."""
    plain = _heads(reader)
    types, every = reader.look("layer_types"), reader.look("full_attention_interval")
    if types is not None:
        linear = [layer for layer, kind in enumerate(_types(reader)) if kind == "linear_attention"]
    elif type(every) is int and every > 0:
        linear = [layer for layer in range(reader.layers) if (layer + 1) % every]
    else:
        rule = "is needed to tell linear layers, or full_attention_interval"
        reader.check.add("layer_types", "missing", rule=rule, fix="Is this the model's own config.json?")
        linear = []
    gate = reader.look("attn_output_gate")
    return replace(
        plain,
        gated=True if gate is None else bool(gate),
        linear=tuple(linear),
        linear_kind="gated_delta",
        linear_heads=_plain(reader, "linear_num_value_heads"),
        linear_key_heads=_plain(reader, "linear_num_key_heads"),
        linear_key_dim=_plain(reader, "linear_key_head_dim"),
        linear_value_dim=_plain(reader, "linear_value_head_dim"),
        linear_conv=_plain(reader, "linear_conv_kernel_dim"),
    )


def kda(reader: Reader) -> Attention:
    """Latent attention in the layers that are named, counted from 1, and Kimi's delta attention in the others."""
    found = replace(latent(reader), gated=_true(reader, "mla_use_output_gate", reader.look("mla_use_output_gate")))
    told = reader.look("linear_attn_config")
    told = told if isinstance(told, dict) else {}
    whole_gate = _true(reader, "linear_attn_config.use_full_rank_gate", told.get("use_full_rank_gate"))
    full, linear = (told.get(key) for key in ("full_attn_layers", "kda_layers"))
    both = [*full, *linear] if isinstance(full, list) and isinstance(linear, list) else []
    if not all(type(item) is int for item in both) or sorted(both) != list(range(1, reader.layers + 1)):
        rule = f"full_attn_layers and kda_layers must name every layer from 1 to {reader.layers} once"
        reader.check.add("linear_attn_config", "..." if told else "missing", rule=rule, fix="Repair the configuration")
        return found
    sizes = {key: told.get(key) for key in ("num_heads", "head_dim", "short_conv_kernel_size")}
    for key, value in sizes.items():
        if type(value) is not int or value < 1:
            rule = "must be a whole number >= 1"
            reader.check.refuse(f"linear_attn_config.{key}", value, rule=rule, fix="Repair the configuration")
            return found
    layers = tuple(sorted(layer - 1 for layer in told["kda_layers"]))
    return replace(
        found,
        index_layers=tuple(layer for layer in found.index_layers if layer not in set(layers)),
        linear=layers,
        linear_kind="kda",
        linear_heads=sizes["num_heads"],
        linear_key_heads=sizes["num_heads"],
        linear_key_dim=sizes["head_dim"],
        linear_value_dim=sizes["head_dim"],
        linear_conv=sizes["short_conv_kernel_size"],
        linear_gate_rank=None if whole_gate else sizes["head_dim"],
    )


def listed(reader: Reader) -> Attention:
    """Heads, with lightning attention where a list has 0, and an index cache where another list has 1."""
    found = standard(reader)
    kinds = reader.items("linear_list")
    linear = tuple(layer for layer, kind in enumerate(kinds or []) if kind == 0)
    if linear:
        found = replace(
            found,
            linear=linear,
            linear_kind="lightning",
            linear_heads=found.heads,
            linear_key_heads=found.heads,
            linear_key_dim=found.head_dim,
            linear_value_dim=found.head_dim,
        )
    index, where = reader.whole("index_dim", None), reader.items("index_list")
    if index is not None and where is not None:
        layers = tuple(layer for layer, on in enumerate(where) if on)
        found = replace(found, index_heads=reader.whole("index_heads", None), index_dim=index, index_layers=layers)
    return found


def _heads(reader: Reader) -> Attention:
    heads = reader.sure("heads")
    kv_heads = reader.whole("kv_heads", heads) or heads
    head_dim, hidden = reader.whole("head_dim", None), reader.sure("hidden")
    if head_dim is None:
        if hidden % heads:
            rule = f"is missing, and hidden = {hidden} is no multiple of {heads} heads"
            reader.check.add("head_dim", "missing", rule=rule, fix="Give head_dim")
        head_dim = max(hidden // heads, 1)
    if heads % kv_heads:
        name = reader.raw("kv_heads")[0]
        reader.check.add(name, kv_heads, rule=f"must divide {heads} heads", fix="Repair the configuration")
    kind = "mha" if kv_heads == heads else "mqa" if kv_heads == 1 else "gqa"
    return Attention(kind, heads=heads, kv_heads=kv_heads, head_dim=head_dim)


def _types(reader: Reader) -> list[object]:
    types = reader.look("layer_types")
    if not isinstance(types, list) or len(types) != reader.layers:
        said = f"{len(types)} entries" if isinstance(types, list) else types
        reader.check.add("layer_types", said, rule=f"must have one a layer, {reader.layers}", fix="Repair it")
        return []
    return types


def _true(reader: Reader, name: str, value: object) -> bool:
    """A flag that is false where it is missing."""
    if value is not None and not isinstance(value, bool):
        reader.check.refuse(name, value, rule="must be true or false", fix="Repair the configuration")
    return value is True


def _plain(reader: Reader, key: str) -> int | None:
    value = reader.look(key)
    if type(value) is not int or value < 1:
        said = "missing" if value is None else value
        reader.check.add(key, said, rule="must be a whole number >= 1", fix="Is this the model's own config.json?")
        return None
    return value


KINDS: dict[str, Callable[[Reader], Attention]] = {
    "standard": standard,
    "chunked": chunked,
    "latent": latent,
    "compressed": compressed,
    "hybrid": hybrid,
    "kda": kda,
    "listed": listed,
}
"""Readings by the name that the table of families uses."""
