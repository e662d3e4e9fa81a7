"""Pages and tables as Markdown text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NOTE = "<!-- Written by docs/generate.py from {source}. Edit that, then run it. -->"


def page(title: str, source: str, *parts: str) -> str:
    """A page: title, where it comes from, and its parts."""
    return "\n\n".join([f"# {title}", NOTE.format(source=source), *parts]) + "\n"


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table."""

    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    header = list(header)
    return "\n".join([line(header), line("---" for _ in header), *(line(row) for row in rows)])
