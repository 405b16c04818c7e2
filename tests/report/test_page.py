"""The HTML page: self-contained, well formed, reproducible, small, and drawn by a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from moeopt import placement
from moeopt.placement import PlacementInstance
from moeopt.report import Block, Header, render_csv, render_html, render_json, render_markdown
from moeopt.report.sorting import SCRIPT
from moeopt.workload import generate
from tests.report.conftest import HOSTILE, compared, instance_of
from tests.report.page_check import Page


def test_page_is_well_formed_and_needs_nothing_from_outside(block: Block, header: Header) -> None:
    text = render_html([block, compared(instance_of(name="second"), ["lpt"])], header)
    page = Page(text)
    assert page.faults == []
    without_pictures = re.sub(r"base64,[A-Za-z0-9+/=]*", "", text)
    assert not re.search(r"https?:|//\w|<script\s|<link|@import|<iframe|<!ENTITY", without_pictures)
    assert page.scripts == [f"\n{SCRIPT}\n"] and not re.search(r"fetch|XMLHttp|import|eval|innerHTML|[<&]", SCRIPT)
    assert page.count("svg") == page.count("figure") == 6 and page.count("h1") == 1


def test_page_is_accessible(page_text: str) -> None:
    page = Page(page_text)
    assert ("html", {"lang": "en"}) in page.tags
    assert page.count("caption") == page.count("table") == 1
    assert all("scope" in attrs for tag, attrs in page.tags if tag == "th")
    assert sum(attrs.get("role") == "img" and bool(attrs.get("aria-label")) for _, attrs in page.tags) == 3


def test_page_says_how_to_make_it_again(block: Block, header: Header, page_text: str) -> None:
    text = " ".join(Page(page_text).text)
    for said in (header.command, block.instance.sha256, "L = 6 layers", "S = 24 slots (6 a GPU", "moeopt 0.0"):
        assert said in text
    assert "Created" not in text
    assert "- Created: 2024-05-01" in render_markdown([block], Header("x", created="2024-05-01"))


@pytest.mark.parametrize("render", [render_markdown, render_csv, render_json])
def test_same_input_same_bytes(block: Block, header: Header, render: object) -> None:
    assert callable(render)
    assert render([block], header) == render([block], header)


def test_same_bytes_in_a_fresh_process_whatever_matplotlib_is_told(
    block: Block, header: Header, page_text: str, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.report.conftest import BLOCK_METHODS, compared, instance_of\n"
        "from moeopt.report import Header, write_report\n"
        f"write_report(sys.argv[1], [compared(instance_of(), BLOCK_METHODS)], {header!r})\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nsvg.fonttype: path\nfont.size: 30\n")
    env = {**os.environ, "PYTHONHASHSEED": "5", "MATPLOTLIBRC": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    page = tmp_path / "page.html"
    done = subprocess.run([sys.executable, "-c", code, page], env=env, capture_output=True, text=True, check=True)
    assert page.read_text(encoding="utf-8") == page_text
    assert done.stdout.strip() == "False"


def test_importing_the_report_does_not_import_matplotlib() -> None:
    code = "import sys, moeopt.report; print('matplotlib' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_drawing_again_gives_the_same_bytes_and_leaves_matplotlibs_settings_alone(
    block: Block, header: Header, page_text: str
) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert render_html([block], header) == page_text
    assert dict(matplotlib.rcParams) == before


def test_hostile_names_are_shown_and_never_obeyed(header: Header) -> None:
    """Names come from files and command lines: markup in them is text."""
    instance = instance_of(name=HOSTILE)
    plans = {
        HOSTILE: placement.solve(instance, method="lpt").plan,
        "_hidden": placement.solve(instance, method="eplb").plan,
    }
    block = compared(instance, ["contiguous"], plans=plans)
    text = render_html([block], Header(HOSTILE, 0, {"<b>": "<i>"}))
    page = Page(text)
    assert page.faults == []
    assert page.scripts == [f"\n{SCRIPT}\n"] and page.count("b") == 3  # captions only
    assert " ".join(page.text).count(HOSTILE) >= 5
    marked = render_markdown([block], Header(HOSTILE, 0, {"<b>": "<i>"}))
    rows = [line for line in marked.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {15}
    assert "\\<script>" in marked


def test_reasons_remarks_and_notes_are_rows(block: Block, header: Header, page_text: str) -> None:
    text = " ".join(Page(page_text).text)
    reason = "fold does not apply: fold needs two slots on every GPU and equal speeds"
    assert reason in text and reason in render_markdown([block], header)
    notes = {note for row in block.comparison.rows if row.result is not None for note in row.result.notes}
    assert notes and all(note in text for note in notes)


def test_rules_that_contradict_each_other_are_said(header: Header) -> None:
    instance = PlacementInstance([[8, 4, 2, 2]], gpus=2, expert_bytes=10, memory_bytes=10, name="tight")
    block = compared(instance, ["lpt", "eplb"])
    page = Page(render_html([block], header))
    assert page.faults == [] and page.count("svg") == 0
    for text in (" ".join(page.text), render_markdown([block], header)):
        assert "No plan exists: the rules of this instance contradict each other" in text
        assert "INFEASIBLE: 40 bytes needed for one replica of each of 4 experts" in text
    assert ",INFEASIBLE,FINISHED,false,," in render_csv([block], header)


def test_a_page_where_every_method_fails(header: Header) -> None:
    block = compared(PlacementInstance([[8, 4, 2, 2, 1, 1]], gpus=2, slots=6, name="none"), ["fold"])
    assert block.comparison.best is None and block.comparison.lower_bound is None
    page = Page(render_html([block], header))
    assert page.faults == [] and page.count("svg") == 0
    assert "No method gave a plan" in " ".join(page.text)
    assert '"lower_bound": null' in render_json([block], header)
    assert "bound" not in [line.split(" |")[0] for line in render_markdown([block], header).splitlines()]


@pytest.mark.parametrize(
    "instance",
    [
        PlacementInstance([[5]], gpus=1, slots=1, name="one"),
        PlacementInstance([[0, 0, 0, 0]], gpus=2, slots=4, name="idle"),
        PlacementInstance(
            [[0, 0, 0], [3, 2, 1]], gpus=2, slots=4, nodes=2, speed=[1, 2], layers=[4, 9], name="half idle"
        ),
        PlacementInstance([[3, 2, 1]], gpus=3, slots=9, floor_tokens=2, steps=3, floor_rule="per_replica", name="full"),
        PlacementInstance([[1, 1]], gpus=2, slots=4, fill="at_most", name=""),
        PlacementInstance([[1e200, 1e-20]], gpus=2, slots=2, name="far apart"),
        PlacementInstance([[7, 3, 1]], gpus=2, slots=4, split="free", name="free split"),
    ],
    ids=lambda instance: instance.name or "nameless",
)
def test_every_format_of_extreme_instances(instance: PlacementInstance, header: Header) -> None:
    block = compared(instance, ["contiguous", "lpt"])
    page = Page(render_html([block], header))
    assert page.faults == [] and page.count("svg") == 3
    assert "nan" not in " ".join(page.text).lower().split()
    for render in (render_markdown, render_csv, render_json):
        assert render([block], header)


def test_a_big_instance_stays_small(header: Header) -> None:
    rng = np.random.default_rng(0)
    loads = generate("lognormal", layers=92, experts=896, top_k=16, tokens=20000, seed=1).loads
    instance = PlacementInstance(loads, gpus=128, slots=1024, nodes=16, name="big")
    slots = np.concatenate([np.tile(np.arange(896), (92, 1)), rng.integers(0, 896, (92, 128))], axis=1)
    spread = slots.reshape(92, 8, 128).transpose(0, 2, 1).reshape(92, 1024)  # slot i to GPU i mod 128
    block = compared(instance, ["lpt"], plans={"dealt": spread})
    assert len(render_html([block], header).encode()) < 3_000_000
    assert len(render_markdown([block], header)) < 20_000


def _browse(page: Path, profile: Path, *options: str) -> bytes:
    """Open a page in headless Chromium; what it writes to standard output."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine: the page is only parsed, not drawn")
    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    always = f"--headless --no-sandbox {quiet} --disable-sync --hide-scrollbars --user-data-dir={profile}".split()
    command = [browser, *always, *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


def test_a_browser_draws_the_page(page_text: str, tmp_path: Path) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(page_text, encoding="utf-8")
    _browse(page, tmp_path / "profile", "--window-size=1100,2400", f"--screenshot={picture}")
    from matplotlib.image import imread

    pixels = imread(picture)[..., :3]
    assert pixels.shape[:2] == (2400, 1100)
    dark = (pixels.sum(axis=2) < 0.9).mean()
    colourful = ((pixels.max(axis=2) - pixels.min(axis=2)) > 0.25).mean()
    assert dark > 0.005 and colourful > 0.02  # text, and heat maps


def test_a_browser_sorts_the_table(page_text: str, tmp_path: Path) -> None:
    """Once up, twice down, thrice as given; rows without a plan come after the others, and the bound is last."""
    given = _order(Page(page_text))
    tops = {name: top for name, top in zip(given, _tops(page_text), strict=True) if top is not None}
    rest = [name for name in given if name not in tops]
    for clicks, order in ((0, given), (1, sorted(tops, key=tops.__getitem__)), (3, given)):
        press = "document.querySelectorAll('thead button')[1].click();" * clicks
        page = tmp_path / f"page{clicks}.html"
        page.write_text(page_text.replace("</body>", f"<script>{press}</script></body>"), encoding="utf-8")
        seen = Page(_browse(page, tmp_path / f"profile{clicks}", "--dump-dom").decode())
        assert _order(seen) == (order if clicks % 3 == 0 else [*order, *rest])
        sorts = [attrs["aria-sort"] for tag, attrs in seen.tags if tag == "th" and "aria-sort" in attrs]
        assert sorts == (["ascending"] if clicks == 1 else [])
        assert sum(tag == "button" for tag, _ in seen.tags) == sum("data-column" in attrs for _, attrs in seen.tags)


def _order(page: Page) -> list[str]:
    """Names of rows as they stand."""
    return [name.strip() for name in page.rows]


def _tops(text: str) -> list[float | None]:
    """The first number of each row."""
    rows = re.findall(r'<tr class="(\w+)"><th scope="row">.*?</th><td[^>]*>(.*?)</td>', text)
    return [float(cell.replace(",", "")) if kind in ("plan", "best", "broken") else None for kind, cell in rows]
