"""Title and header of a report."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.report import words
from moeopt.report.block import Header
from moeopt.report.summary import Summary


def title(summaries: Sequence[Summary]) -> str:
    """What the report is about."""
    if len(summaries) == 1:
        return f"Expert placement compared: {summaries[0].name}"
    return f"Expert placement compared on {words.count(len(summaries), 'instance')}"


def all_versions(summaries: Sequence[Summary], header: Header) -> dict[str, str]:
    """The header's versions, and those that only a method names."""
    found: dict[str, str] = {}
    for summary in summaries:
        for row in summary.rows:
            for package, version in row.result.versions.items() if row.result is not None else ():
                found.setdefault(package, version)
    return {**header.versions, **{name: found[name] for name in sorted(found) if name not in header.versions}}


def header_facts(summaries: Sequence[Summary], header: Header) -> list[tuple[str, str]]:
    """Command, seed, versions and, where it was given, the time, label and text."""
    versions = ", ".join(f"{name} {version}" for name, version in all_versions(summaries, header).items())
    found = [("Seed", str(header.seed)), ("Versions", versions)]
    if header.command:
        found.insert(0, ("Command", header.command))
    found += [("Note", note) for note in header.notes]
    return [*found, ("Created", header.created)] if header.created is not None else found
