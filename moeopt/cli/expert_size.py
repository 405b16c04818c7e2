"""The size of an expert where no option says it: that of the LLM of --llm or --hf-config."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.cli.options import Shape
    from moeopt.cli.say import Say


def size_of_expert(shape: Shape, say: Say, *, needed: bool = True) -> Shape:
    """The shape with the bytes of an expert, where the LLM says them and no option does; what was taken is said.

    A name says nothing else, so that it is always asked; the LLM of a configuration only where bytes are `needed`.

    Raises
    ------
    InstanceError
        Two LLMs, none of that name, or one by name whose experts have no known size.
    """
    from moeopt.llm import expert_bytes, find

    if shape.llm is not None and shape.hf_config is not None:
        rule = "names an LLM, and --hf-config does too"
        raise InstanceError([Violation("--llm", "", shape.llm, rule, "Give one of them")])
    if shape.llm is None and not needed:
        return shape
    facts = shape.facts if shape.llm is None else find(shape.llm)
    if facts is None or shape.expert_bytes is not None:
        return shape
    try:
        each = expert_bytes(facts)
    except InstanceError as error:
        if shape.llm is not None:
            raise
        say.note(f"bytes are not told: {error}")
        return shape
    say.note(f"an expert of {facts.name} has {each:,} bytes ({facts.expert_format})")
    return replace(shape, expert_bytes=str(each))
