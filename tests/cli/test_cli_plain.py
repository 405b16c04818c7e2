"""Options of plain kinds: what is read plainly is what the parser reads, and needs nothing more to be loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from moeopt.cli.once import OnceCommand


def command(cls: Any) -> typer.Typer:
    app = typer.Typer()

    @app.command(cls=cls)
    def said(
        whole: Annotated[int | None, typer.Option("--whole")] = None,
        part: Annotated[float | None, typer.Option("--part")] = None,
        word: Annotated[str | None, typer.Option("--word")] = None,
        several: Annotated[list[str] | None, typer.Option("--several")] = None,
        least: Annotated[int, typer.Option("--least", min=2)] = 3,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> None:
        print(repr((whole, part, word, several, least, flag)))

    return app


@pytest.mark.parametrize(
    "words",
    [
        "", "--whole 8", "--whole -8", "--whole 007", "--whole 8.5", "--whole 8.0", "--whole x", "--whole 1_000",
        "--whole 99999999999999999999", "--whole +8", "--whole ٣", "--part 0.1", "--part 1e3", "--part 5", "--part nan",
        "--part -2.50", "--part .5", "--part x", "--part 123456789012345.123456789012345", "--word x", "--word=",
        "--several a --several b", "--least 1", "--least 4", "--flag",
    ],
)  # fmt: skip
def test_options_are_what_the_parser_makes_of_them(words: str) -> None:
    ours, theirs = (CliRunner().invoke(command(cls), words.split()) for cls in (OnceCommand, typer.core.TyperCommand))
    assert (ours.exit_code, ours.output) == (theirs.exit_code, theirs.output)


def test_an_answer_loads_no_models_of_documents() -> None:
    code = (
        "import io, sys\nfrom moeopt.cli import main\nsys.stdout = io.StringIO()\n"
        "assert main(['mesh', '--llm', 'mixtral-8x7b', '--gpu', 'h200', '--gpus', '2', '--json', '-q']) == 0\n"
        "print('pydantic' in sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "False"
