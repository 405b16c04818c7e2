"""The command line: one file a verb, each a thin layer over the library; `main` runs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 done; 1 our fault; 2 bad usage or input; 3 infeasible; 4 a limit was hit before any plan; 5 a gate said no.

    Parameters
    ----------
    args
        Words after the program's name; those of the process by default.
    """
    from moeopt.cli.app import app
    from moeopt.cli.say import close_quietly, complain
    from moeopt.cli.verb import BAD_USAGE, COMMAND

    words = list(sys.argv[1:] if args is None else args)
    token = COMMAND.set(tuple(words))
    try:
        code = app(args=words, prog_name="moeopt", standalone_mode=False)
    except Exception as error:
        message = getattr(error, "format_message", None)  # the parser's own errors, whichever version it comes from
        if message is None:
            raise
        complain(f"{message().strip()} (moeopt --help, or --help after the verb, shows what there is)")
        return BAD_USAGE
    finally:
        COMMAND.reset(token)
        close_quietly()
    return code if isinstance(code, int) else 0
