"""Convert a plan, or an engine's map, into the map that an engine loads."""

from __future__ import annotations

from typing import Annotated

import typer

from moeopt.cli.ask import ask
from moeopt.cli.llm_options import Llm
from moeopt.cli.options import Json, Showing
from moeopt.cli.piped import file_of
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb
from moeopt.errors import InstanceError, Violation

EXAMPLE = """Example:

moeopt convert plan.json --to sglang --hf-config config.json -o decode-map.json

moeopt convert collocation.json --to sglang --llm deepseek-v3 -o prefill-map.json

moeopt convert plan.json --to trtllm --layers-total 61 --dense 0,1,2 -o map.yaml

moeopt convert running.json --to moeopt --gpus 32 -o current.json"""


@verb
def convert(
    say: Say,
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN_OR_MAP", help="A plan that place or collocate wrote, or an engine's map; - is stdin."
        ),
    ],
    json: Json,
    which: Llm,
    showing: Showing,
    to: Annotated[str, typer.Option("--to", help="sglang, vllm-ascend, trtllm, omni, eplb or moeopt.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="The map to write; - is standard output.")
    ],
    experts: Annotated[int | None, typer.Option("--experts", min=1, help="E, where the map does not say it.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="G, where the map does not say it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> int:
    """Write the map an engine loads, and beside it, in OUT.options.txt, how to start the engine with it.

    The options stand on standard output, the warnings on standard error; with -o - the map stands on standard output
    and all else on standard error. What is not known of the LLM, and what the engine cannot load, is said at once, and
    nothing is written then.
    """
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.engines.rules import RULES
    from moeopt.engines.source import read_source
    from moeopt.engines.writing import known_target, render, write_map

    known_target(to)
    to_stdout = output == STDOUT
    if to_stdout and json.json:
        rule = "says on standard output what was written, and -o - writes the map there"
        raise InstanceError([Violation("--json", "", "given", rule, "Leave one of them out")])
    if not to_stdout:
        check_target(output, RULES[to].endings, force, what=f"a map for {RULES[to].title}")
    with file_of(plan) as file:
        found = read_source(file)
    known = getattr(getattr(found, "solution", None), "llm", None)
    facts = which.layer_facts(known, experts)
    if to_stdout:
        piece, warnings = render(found, to, f"map{RULES[to].endings[0]}", llm=facts, gpus=gpus)
        say.content(piece.content)
        for line in (*piece.options, *dict.fromkeys([*warnings, *piece.warnings])):
            say.note(line)
        return DONE
    what = ask(write_map, found, to, output, llm=facts, gpus=gpus, force=force)
    if json.json:
        say.document({"files": list(what.files), "options": list(what.options), "warnings": list(what.warnings)})
    elif not say.quiet:
        for line in what.options:
            say.line(line)
    for warning in what.warnings:
        say.note(warning)
    say.note(f"written: {', '.join(what.files)}")
    return DONE
