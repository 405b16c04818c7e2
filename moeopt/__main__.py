"""``python -m moeopt`` is the command ``moeopt``."""

import gc
import sys

MANY = 500_000
"""Objects of a command before cycles among them are looked for: what it leaves behind is freed without, and what it
keeps, thousands of shapes and what is known of them, was gone through dozens of times."""


def run() -> int:
    """The command; an interrupt while even its first module is loaded is no traceback."""
    gc.set_threshold(MANY, *gc.get_threshold()[1:])
    try:
        from moeopt.cli import main
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
