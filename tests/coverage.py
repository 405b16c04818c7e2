"""What the tests reach, held against two floors: ``make coverage`` runs them, and then this."""

from __future__ import annotations

import sys

from coverage import Coverage
from coverage.report_core import get_analysis_to_report

ALL, EACH = 92.0, 80.0
"""Per cent of lines and branches, of the package and of every file."""


def main(data: str) -> int:
    """Every file below its floor, and the whole; 1 where there is one."""
    measured = Coverage(data_file=data)
    measured.load()
    rows, reached, known = [], 0, 0
    for morph, analysis in get_analysis_to_report(measured, None):
        inside, of = analysis.numbers.ratio_covered
        reached, known = reached + inside, known + of
        rows.append((100.0 * inside / of if of else 100.0, morph.relative_filename()))
    low = sorted(row for row in rows if row[0] < EACH)
    for share, name in low:
        print(f"{share:5.1f} %  {name}: below {EACH:g} %")
    whole = 100.0 * reached / known
    print(f"{whole:5.1f} %  of {known:,} lines and branches in {len(rows)} files; at least {ALL:g} % are asked")
    return int(bool(low) or whole < ALL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
