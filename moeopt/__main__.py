"""``python -m moeopt`` is the command ``moeopt``."""

import sys


def run() -> int:
    """The command; an interrupt while even its first module is loaded is no traceback."""
    try:
        from moeopt.cli import main
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
