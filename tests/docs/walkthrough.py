"""Reads a tutorial as a careful newcomer would: which file to write, what to type, what to see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w./]+\.py)`")


@dataclass(frozen=True)
class WriteFile:
    """Write this text to the file that the sentence before the block names; or ``add`` it at the end."""

    path: str
    text: str
    add: bool


@dataclass(frozen=True)
class Command:
    """A line to type, and the lines that must be seen then."""

    line: str
    shown: list[str] = field(default_factory=list)


def steps(page: Path) -> Iterator[WriteFile | Command]:
    """What the page asks for, in order. Raises ValueError for a block that nobody could follow."""
    text = page.read_text("utf-8")
    for block in FENCE.finditer(text):
        language, body = block.groups()
        if language == "console":
            yield from _commands(body)
        elif language == "python":
            before = text[: block.start()].rstrip().rsplit("\n\n", 1)[-1]
            named = FILE.findall(before)
            if not named:
                raise ValueError(f"no sentence says where to write:\n{body}")
            yield WriteFile(named[-1], body, add=re.search(r"\badd\b", before) is not None)
        else:
            raise ValueError(f"a block in {language or 'no language'} cannot be followed:\n{body}")


def python_blocks(page: Path) -> Iterator[str]:
    """Every python block of a page."""
    for language, body in FENCE.findall(page.read_text("utf-8")):
        if language == "python":
            yield body


def _commands(body: str) -> Iterator[Command]:
    commands: list[Command] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        else:
            commands[-1].shown.append(line)
    yield from commands
