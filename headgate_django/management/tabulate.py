"""Numbers in columns, for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

Write = Callable[[str], object]
"""Prints a line."""


def tabulate(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """A line of headings and a line a row. The first column stands left, the others right."""
    headings = list(dict.fromkeys(key for row in rows for key in row))
    lines = [headings] + [[row.get(heading, "") for heading in headings] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        first, *others = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()


def number(value: int) -> str:
    """``1,234``."""
    return f"{value:,}"


def percentage(part: float | None) -> str:
    """``12.5 %``, or a dash for nothing."""
    return "-" if part is None else f"{100 * part:.1f} %"


def duration(seconds: float) -> str:
    """``50 ms``, ``12.3 s``, ``2 h 05 min``: as exact as people want it."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 600:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def size(number: int) -> str:
    """``12.3 MiB``, or a dash where it is not known."""
    return f"{number / 2**20:,.1f} MiB" if number else "-"


def printable(text: str) -> str:
    """The text, with what would steer a terminal escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
