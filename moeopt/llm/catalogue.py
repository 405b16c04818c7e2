"""The catalogue of LLMs: facts of published models, each with its source; what no source confirms is null."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from moeopt.errors import InstanceError, Violation
from moeopt.llm.facts import LlmFacts


@cache
def catalogue() -> dict[str, LlmFacts]:
    """All LLMs of the catalogue by name, as ``llms.json`` beside this file has them.

    >>> catalogue()["qwen3-235b-a22b"].experts
    128
    """
    text = files("moeopt.llm").joinpath("llms.json").read_text(encoding="utf-8")
    return {row["name"]: LlmFacts.from_dict(row) for row in json.loads(text)["llms"]}


def find(name: str) -> LlmFacts:
    """One LLM by its name or its Hugging Face id, capitals aside.

    Raises
    ------
    InstanceError
        It is not in the catalogue; the nearest names are told.

    Examples
    --------
    >>> find("deepseek-ai/DeepSeek-V3").name
    'deepseek-v3'
    >>> find("deepseek-v9")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: llm = deepseek-v9: is not in the catalogue (moeopt info llms). Did you mean deepseek-v3, deepseek-v2 or deepseek-v3.2? Or give its config.json.
    """  # noqa: E501
    known = {key.lower(): facts for facts in catalogue().values() for key in (facts.name, facts.hf_id) if key}
    found = known.get(str(name).lower())
    if found is not None:
        return found
    from difflib import get_close_matches

    near = list(dict.fromkeys(known[key].name for key in get_close_matches(str(name).lower(), known, n=3, cutoff=0.6)))
    said = " or ".join([", ".join(near[:-1]), near[-1]] if len(near) > 1 else near)
    fix = f"Did you mean {said}? Or give its config.json" if near else "Give its config.json"
    raise InstanceError([Violation("llm", "", str(name), "is not in the catalogue (moeopt info llms)", fix)])
