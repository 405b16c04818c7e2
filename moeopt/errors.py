"""Errors that name the field, the place, the value, the rule and the next step, all violations together.

Every error a user can cause derives from `MoeoptError`; what is raised is never a bare string.
An impossible wish (well-formed rules that conflict) is not an error but a `Result` with status INFEASIBLE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

SHOWN = 20
"""How many violations a message lists; the rest is counted, and all are in ``violations``."""


class MoeoptError(Exception):
    """The root of every error this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: which field and where, the value seen, the rule, and what to do next.

    ``source`` is the file, where it is another than that of the error.

    >>> print(Violation("loads", "layer 3, expert 17", "nan", "loads must be finite tokens >= 0", "Drop it"))
    loads[layer 3, expert 17] = nan: loads must be finite tokens >= 0. Drop it.
    """

    field: str
    where: str
    value: str
    rule: str
    fix: str
    source: str = ""

    def __str__(self) -> str:
        place = f"{self.field}[{self.where}]" if self.where else self.field
        fix = self.fix if self.fix.endswith((".", "?")) else f"{self.fix}."
        return printable(f"{place} = {self.value}: {self.rule.rstrip('.')}." + (f" {fix}" if self.fix else ""))


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "", *, most: int = 3) -> str:
    """The next step for a name that is not known: up to `most` that look like it.

    >>> did_you_mean("h1000", ["H100", "H200", "B200"]), did_you_mean("prefil", ["prefill"]), did_you_mean("x", ["y"])
    ('Did you mean H100 or H200?', 'Did you mean prefill?', '')
    """
    from difflib import get_close_matches

    names = {one.lower(): one for one in known}
    near = [names[one] for one in get_close_matches(str(name).lower(), names, n=most, cutoff=0.6)]
    said = " or ".join([", ".join(near[:-1]), near[-1]] if len(near) > 1 else near)
    return f"Did you mean {said}?" if near else otherwise


def shortened(text: str) -> str:
    """Text in 80 characters: its beginning, and dots where it goes on.

    >>> shortened("short"), len(shortened("x" * 100))
    ('short', 80)
    """
    return text if len(text) <= 80 else text[:77] + "..."


def printable(text: str) -> str:
    r"""Text of a file without what a terminal or a page would obey, or could not show: such signs as escapes.

    >>> printable("a\x1b[31mb"), printable("\u202eloads")
    ('a\\x1b[31mb', '\\u202eloads')
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in text)


def one_line(text: str) -> str:
    r"""Text on one line: as `printable` shows it, with line ends and tabs as escapes too.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class InstanceError(MoeoptError, ValueError):
    """Input that is malformed, or a shape that is refused; carries every violation found.

    Parameters
    ----------
    violations
        At least one; the message shows the first `SHOWN`.
    source
        The file the input came from, put before the message.

    >>> str(InstanceError([Violation("slots", "", "7", "must be a multiple of gpus = 4", "Use 8")], "a.csv"))
    'a.csv: slots = 7: must be a multiple of gpus = 4. Use 8.'
    """

    def __init__(self, violations: Iterable[Violation], source: str = "") -> None:
        self.violations = tuple(violations)
        self.source = source
        if not self.violations:
            raise ValueError("an InstanceError needs at least one violation")
        prefix = f"{printable(source)}: " if source else ""
        lines = [f"{self.file_of(violation)}{violation}" for violation in self.violations[:SHOWN]]
        if len(self.violations) > SHOWN:
            lines.append(f"{prefix}... and {len(self.violations) - SHOWN:,} more of this kind.")
        super().__init__("\n".join(lines))

    def file_of(self, violation: Violation) -> str:
        """The file a violation is of, as its line begins; empty where none is known."""
        source = violation.source or self.source
        return f"{printable(source)}: " if source else ""

    def __reduce__(self) -> tuple[type[InstanceError], tuple[tuple[Violation, ...], str]]:
        return type(self), (self.violations, self.source)  # errors cross process borders


class PlanError(MoeoptError, ValueError):
    """A plan the referee refuses; ``faults`` lists every fault once, each naming its place."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(dict.fromkeys(faults))
        shown = list(self.faults[:SHOWN])
        if len(self.faults) > SHOWN:
            shown.append(f"... and {len(self.faults) - SHOWN:,} more")
        super().__init__("; ".join(shown))

    def __reduce__(self) -> tuple[type[PlanError], tuple[tuple[str, ...]]]:
        return type(self), (self.faults,)


class NotApplicable(MoeoptError, ValueError):
    """A method that cannot work on this instance; the message says why and which method can."""


class BackendUnavailable(MoeoptError, ImportError):
    """A package that is not installed; the message has the command that installs it."""


class Violations:
    """Collects violations so that a message can show all of them at once.

    >>> check = Violations()
    >>> check.add("gpus", 0, rule="must be >= 1", fix="Use 1")
    >>> check.raise_if_any()
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: gpus = 0: must be >= 1. Use 1.
    """

    def __init__(self, source: str = "") -> None:
        self.source = source
        self.found: list[Violation] = []

    def add(self, field: str, value: object, *, rule: str, fix: str = "", where: str = "") -> None:
        """Note one violation; `value` is shown as `repr` shows it in 80 characters, text as it is and its end too.

        Text stands for what was counted or read; a text that was given in place of something else goes to `refuse`.
        """
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
            value = getattr(value, "item", lambda: value)()  # 99 and not np.int32(99)
        try:
            text = value if isinstance(value, str) else repr(value)
        except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
            text = "..."
        if isinstance(value, str) and len(text) > 80:
            text = f"{text[:40]}...{text[-37:]}"
        text = shortened(text)
        self.found.append(Violation(field, where, text, rule, fix))

    def refuse(self, field: str, value: object, *, rule: str, fix: str = "", where: str = "") -> None:
        """The same for a value of somebody's where no text belongs: text is shown in quotes, so that it is seen.

        >>> check = Violations()
        >>> check.refuse("gpus", "8", rule="must be a whole number >= 1")
        >>> check.found[0].value
        "'8'"
        """
        self.add(field, repr(value) if isinstance(value, str) else value, rule=rule, fix=fix, where=where)

    @contextmanager
    def within(self) -> Iterator[None]:
        """Run a block and take over the violations of an `InstanceError` it raises."""
        try:
            yield
        except InstanceError as error:
            other = error.source if error.source != self.source else ""
            self.found.extend(replace(one, source=one.source or other) for one in error.violations)

    def raise_if_any(self) -> None:
        """Raise `InstanceError` with everything found, or do nothing."""
        if self.found:
            raise InstanceError(self.found, self.source)
