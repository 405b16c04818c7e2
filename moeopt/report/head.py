"""Title and header of a report, headings of its blocks, and what has to be said once of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moeopt.report import words
from moeopt.report.block import Header
from moeopt.report.sheet import Sheet


@dataclass(frozen=True)
class Reading:
    """What columns mean, under the `title` of those tables that it is of."""

    title: str
    footnotes: tuple[tuple[str, str], ...]
    closing: str

    def of(self, sheet: Sheet) -> bool:
        """Whether it is of that table."""
        return self.footnotes == tuple(sheet.footnotes) and self.closing == sheet.closing


def title(sheets: Sequence[Sheet]) -> str:
    """What the report is about."""
    topics = list(dict.fromkeys(sheet.topic for sheet in sheets))
    if len(sheets) == 1:
        return f"{topics[0]} compared: {sheets[0].name}"
    what = topics[0] if len(topics) == 1 else words.count(len(topics), "problem")
    return f"{what} compared on {words.count(len(sheets), 'instance')}"


def headings(sheets: Sequence[Sheet]) -> list[str]:
    """Of every block its name, with the topic where there are several."""
    several = len({sheet.topic for sheet in sheets}) > 1
    return [f"{sheet.topic}: {sheet.name}" if several else sheet.name for sheet in sheets]


def readings_of(sheets: Sequence[Sheet]) -> list[Reading]:
    """Each explanation of columns once, in the order of the tables."""
    found: dict[tuple[tuple[tuple[str, str], ...], str], list[Sheet]] = {}
    for sheet in sheets:
        found.setdefault((tuple(sheet.footnotes), sheet.closing), []).append(sheet)
    topics = [users[0].topic for users in found.values()]
    return [
        Reading(users[0].topic if topics.count(users[0].topic) == 1 else ", ".join(headings(users)), footnotes, closing)
        for (footnotes, closing), users in found.items()
    ]


def all_versions(sheets: Sequence[Sheet], header: Header) -> dict[str, str]:
    """The header's versions, and those that only a method names."""
    found: dict[str, str] = {}
    for sheet in sheets:
        for package, version in sheet.versions.items():
            found.setdefault(package, version)
    return {**header.versions, **{name: found[name] for name in sorted(found) if name not in header.versions}}


def header_facts(sheets: Sequence[Sheet], header: Header) -> list[tuple[str, str]]:
    """Command, seed, versions and, where it was given, the time, label and text."""
    versions = ", ".join(f"{name} {version}" for name, version in all_versions(sheets, header).items())
    found = [("Versions", versions)] if header.seed is None else [("Seed", str(header.seed)), ("Versions", versions)]
    if header.command:
        found.insert(0, ("Command", header.command))
    found += [("Note", note) for note in header.notes]
    return [*found, ("Created", header.created)] if header.created is not None else found
