"""Convert a plan, or an engine's map, into the map that an engine loads."""

from __future__ import annotations

from typing import Annotated

import typer

from moeopt.cli.llm_options import Llm
from moeopt.cli.options import Json
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb

EXAMPLE = """Example:

moeopt convert plan.json --to sglang --hf-config config.json -o decode-map.json

moeopt convert plan.json --to trtllm --layers-total 61 --dense 0,1,2 -o map.yaml

moeopt convert running.json --to moeopt --gpus 32 -o current.json"""


@verb
def convert(
    say: Say,
    plan: Annotated[
        str, typer.Argument(metavar="PLAN_OR_MAP", help="A plan that place wrote, or an engine's map; - is stdin.")
    ],
    json: Json,
    which: Llm,
    to: Annotated[str, typer.Option("--to", help="sglang, vllm-ascend, trtllm, omni, eplb or moeopt.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="The map to write.")],
    experts: Annotated[int | None, typer.Option("--experts", min=1, help="E, where the map does not say it.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="G, where the map does not say it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> int:
    """Write the map an engine loads, and beside it, in OUT.options.txt, how to start the engine with it.

    The options stand on standard output, the warnings on standard error. What is not known of the LLM, and what the
    engine cannot load, is said at once, and nothing is written then.
    """
    from moeopt.cli.target import check_target
    from moeopt.engines.rules import RULES
    from moeopt.engines.source import read_source
    from moeopt.engines.writing import known_target, write_map

    known_target(to)
    check_target(output, RULES[to].endings, force, what=f"a map for {RULES[to].title}")
    found = read_source(plan)
    known = getattr(getattr(found, "solution", None), "llm", None)
    what = write_map(found, to, output, llm=which.layer_facts(known, experts), gpus=gpus, force=force)
    if json.json:
        say.document({"files": list(what.files), "options": list(what.options), "warnings": list(what.warnings)})
    elif not say.quiet:
        for line in what.options:
            say.line(line)
    for warning in what.warnings:
        say.note(warning)
    say.note(f"written: {', '.join(what.files)}")
    return DONE
