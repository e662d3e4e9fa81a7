"""Files and functions are small, and each says what it is."""

from __future__ import annotations

import ast
import statistics

import pytest

from tests.architecture.source import PACKAGE, ROOT, functions, modules

MAX_FILE, MAX_FUNCTION = 300, 40
VAGUE = {"utils", "helpers", "common", "misc", "base", "manager", "managers"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)


def lines(path) -> int:
    return len(path.read_text("utf-8").splitlines())


@pytest.mark.parametrize("folder", ["headgate_django", "tests", "example_project", "docs", "benchmarks"])
def test_no_file_is_longer_than_300_lines(folder):
    long = {str(path.relative_to(ROOT)): lines(path) for path in (ROOT / folder).rglob("*.py")}

    assert {name: length for name, length in long.items() if length > MAX_FILE} == {}


def test_most_files_are_short():
    assert statistics.median(lines(path) for path in FILES) <= 80


def test_no_function_is_longer_than_40_lines():
    long = {
        f"{name}:{function.name}": function.end_lineno - function.lineno + 1
        for name, tree in modules().items()
        for function in functions(tree)
    }

    assert {name: length for name, length in long.items() if length > MAX_FUNCTION} == {}


@pytest.mark.parametrize("name", modules())
def test_a_module_opens_by_saying_what_lives_in_it(name):
    tree = modules()[name]

    assert ast.get_docstring(tree) or not tree.body


def test_no_module_has_a_name_that_says_nothing():
    names = {part.removesuffix(".py") for path in FILES for part in path.relative_to(PACKAGE).parts}

    assert names & VAGUE == set()


@pytest.mark.parametrize("name", modules())
def test_what_others_may_call_says_what_it_does(name):
    silent = [
        node.name
        for node in modules()[name].body
        if isinstance(node, DEFINITIONS)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not is_overload(node)
    ]

    assert silent == []


def is_overload(node: ast.AST) -> bool:
    return any(getattr(decorator, "id", "") == "overload" for decorator in getattr(node, "decorator_list", []))


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()
