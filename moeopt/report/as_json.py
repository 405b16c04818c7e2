"""The report as strict JSON: everything, so that one file is enough to judge and bound every plan again."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt import kinds
from moeopt.documents import to_json
from moeopt.report.block import Block, Header
from moeopt.report.head import all_versions
from moeopt.report.sheet import sheets_of

SCHEMA = "moeopt/comparison/1"


@kinds.expects(
    blocks=kinds.each("moeopt.report.block:Block|moeopt.report.sheet:Sheet"), header="moeopt.report.block:Header"
)
def render_json(blocks: Sequence[Block], header: Header) -> str:
    """The whole document.

    `blocks` are comparisons, of one problem or of several; `header` says how they came about.

    >>> from moeopt import placement
    >>> from moeopt.report import Block, Header
    >>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four")
    >>> block = Block(instance, placement.compare(instance, ["contiguous", "lpt"]))
    >>> '"blocks"' in render_json([block], Header())
    True
    """
    sheets = sheets_of(blocks)
    document = {
        "schema": SCHEMA,
        "command": header.command,
        "seed": header.seed,
        "versions": all_versions(sheets, header),
        "created": header.created,
        "notes": list(header.notes),
        **{key: value for sheet in sheets for key, value in sheet.common.items()},
        "blocks": [dict(sheet.document) for sheet in sheets],
    }
    return to_json(document) + "\n"
