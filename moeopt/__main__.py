"""``python -m moeopt`` is the command ``moeopt``."""

import sys

from moeopt.cli import main

if __name__ == "__main__":
    sys.exit(main())
