"""Which lines of the package a call reaches that no call before it has reached."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = str(Path(__file__).parents[2] / "moeopt")
KERNELS = str(Path(PACKAGE) / "kernels")


class Lines:
    """Lines reached so far; functions whose lines are all known are not looked at again."""

    def __init__(self) -> None:
        self.left: dict[CodeType, set[int]] = {}
        self.reached = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what is called within."""
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)

    def _entered(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        left = self.left.get(code)
        if left is None:
            ours = code.co_filename.startswith(PACKAGE) and not code.co_filename.startswith(KERNELS)
            left = {line for _, _, line in code.co_lines() if line} if ours else set()
            self.left[code] = left
        if not left:
            return None

        def moved(frame: FrameType, event: str, argument: object) -> Any:
            if frame.f_lineno in left:
                left.discard(frame.f_lineno)
                self.reached += 1
            return moved

        return moved(frame, event, argument)
