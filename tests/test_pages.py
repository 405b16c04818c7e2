"""Links between the pages lead to files and headings that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("models/*.md")]


def anchors(page: Path) -> set[str]:
    """Names of headings as pages link to them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_between_pages_lead_somewhere() -> None:
    lost = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            if "://" in link:
                continue
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                lost.append(f"{page.name}: {link}")
    assert lost == []


def test_every_page_of_docs_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in ROOT.glob("docs/*.md") if f"docs/{page.name}" not in readme] == []
