"""Title and header of a report."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.report import words
from moeopt.report.block import Header
from moeopt.report.sheet import Sheet


def title(sheets: Sequence[Sheet]) -> str:
    """What the report is about."""
    if len(sheets) == 1:
        return f"{sheets[0].topic} compared: {sheets[0].name}"
    return f"{sheets[0].topic} compared on {words.count(len(sheets), 'instance')}"


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
    found = [("Seed", str(header.seed)), ("Versions", versions)]
    if header.command:
        found.insert(0, ("Command", header.command))
    found += [("Note", note) for note in header.notes]
    return [*found, ("Created", header.created)] if header.created is not None else found
