"""The documentation agrees with the code, and with itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import pages
from headgate_django import exceptions
from tests.docs.walkthrough import python_blocks

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages(), ids=named)
def test_a_reference_page_is_what_the_code_says(page):
    assert page.read_text("utf-8") == pages()[page], "run: python docs/generate.py"


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_every_python_block_compiles(page):
    for block in python_blocks(page):
        compile(block, named(page), "exec")


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_every_link_leads_somewhere(page):
    links = [link for link, _ in LINK.findall(page.read_text("utf-8")) if "://" not in link]

    missing = [link for link in links if not (page.parent / link).exists()]

    assert not missing


def test_every_page_can_be_reached_from_the_index():
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link, _ in LINK.findall(index.read_text("utf-8"))}

    assert {named(page) for page in ROOT.glob("docs/**/*.md")} - {
        named(page) for page in linked | {index}
    } == set()


def test_every_outcome_is_explained():
    page = (ROOT / "docs" / "reference" / "outcomes.md").read_text("utf-8")

    for outcome in exceptions.Outcome.__subclasses__():
        assert f"`{outcome.__name__}" in page


def test_every_error_that_the_queue_writes_is_listed():
    sources = "".join(path.read_text() for path in (ROOT / "headgate_django").rglob("*.py"))
    written = set(re.findall(r'(?:error_class=|no_room\(\s*)"(\w+)"', sources))
    page = (ROOT / "docs" / "reference" / "outcomes.md").read_text()

    assert len(written) > 5
    assert {name for name in written if f"`{name}`" not in page} == set()
