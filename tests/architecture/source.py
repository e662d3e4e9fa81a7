"""The package's own source, parsed: what the architecture tests look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "headgate_django"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package but its migrations, by its path inside the package."""
    paths = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def texts(tree: ast.Module) -> Iterator[str]:
    """Every string constant that is no docstring, parts of f-strings included."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an attribute or a name, or an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""
