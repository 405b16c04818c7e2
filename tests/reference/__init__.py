"""The table of reference values: figures that sources print, and the calls of moeopt that give them.

``python -m tests.reference`` prints it, ``pytest tests/reference`` tests it. An entry file beside this one registers
functions by `reproduces`; each takes the entry's inputs and calls the library.
"""

from tests.reference.table import ENTRIES, Entry, Inputs, later, reproduces

__all__ = ["ENTRIES", "Entry", "Inputs", "later", "reproduces"]
