"""Where instances of tests are."""

from pathlib import Path

TINY = Path(__file__).resolve().parents[2] / "instances" / "tiny"
