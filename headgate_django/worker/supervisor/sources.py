"""The Python files of a project, libraries left aside, and when each was changed."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.apps import apps


def snapshot(modules: Iterable[Path]) -> dict[Path, int]:
    """When each of these files was changed, and every other Python file that the worker may import as its own."""
    found = {}
    for path in {*modules, *_own_files()}:
        with contextlib.suppress(OSError):  # saved by an editor that puts a new file in its place
            found[path] = path.stat().st_mtime_ns
    return found


def _own_files() -> Iterator[Path]:
    """The modules and packages in the places of ``sys.path`` that hold no libraries, and the installed apps."""
    folders = {Path(app.path).resolve() for app in apps.get_app_configs()}
    for root in {Path(path).resolve() for path in sys.path}:
        if root.is_dir() and not _is_library(root):
            yield from root.glob("*.py")
            folders |= {marker.parent for marker in root.glob("*/__init__.py")}
    for folder in folders:
        if not _is_library(folder):
            for parent, _, names in os.walk(folder):
                yield from (Path(parent, name) for name in names if name.endswith(".py"))


def _is_library(folder: Path) -> bool:
    paths = sysconfig.get_paths()
    libraries = [Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(folder.is_relative_to(library) for library in libraries) or "site-packages" in folder.parts
