"""The jobs module of every installed app is imported; one that cannot be is named, loudly."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test.utils import override_settings

from headgate_django.exceptions import ConfigurationError, DuplicateKind
from headgate_django.jobs import registry

App = Callable[..., str]

HANDLER = """
from headgate_django import job

@job("{kind}")
def handler():
    return "ran"
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """Makes an importable application: ``app("name", jobs="source")``."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def make(name: str, **modules: str) -> str:
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").touch()
        for module, source in modules.items():
            (package / f"{module}.py").write_text(source)
        importlib.invalidate_caches()
        made.append(name)
        return name

    yield make
    for module in list(sys.modules):
        if module.split(".")[0] in made:
            del sys.modules[module]


def discover(*apps: str) -> list[str]:
    with override_settings(INSTALLED_APPS=["django.contrib.contenttypes", *apps]):
        return registry.autodiscover()


def test_the_jobs_of_installed_apps_are_registered(app):
    name = app("discovered_shop", jobs=HANDLER.format(kind="discovered:ok"))

    assert discover(name) == ["discovered_shop.jobs"]
    assert registry.find("discovered:ok")() == "ran"


def test_an_app_without_jobs_is_fine(app):
    assert discover(app("discovered_nothing")) == []


def test_jobs_may_be_a_package(app, tmp_path):
    name = app("discovered_package")
    package = tmp_path / name / "jobs"
    package.mkdir()
    (package / "__init__.py").write_text(HANDLER.format(kind="discovered:package"))
    importlib.invalidate_caches()

    assert discover(name) == ["discovered_package.jobs"]


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import a_package_that_is_missing", "ModuleNotFoundError: No module named 'a_package_that_is_missing'"),
        ("from django.utils import no_such_name", "ImportError: cannot import name 'no_such_name'"),
        ("raise ValueError('bad start')", "ValueError: bad start"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        (
            "from headgate_django import job\n@job('discovered:bad', qeue='x')\ndef f(): ...",
            "did you mean 'queue'",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_its_cause(app, source, cause):
    name = app("discovered_broken", jobs=source)

    with pytest.raises(ConfigurationError, match=f"cannot import discovered_broken.jobs: .*{cause}") as caught:
        discover(name)
    assert caught.value.__cause__ is not None


def test_a_missing_module_inside_jobs_is_not_taken_for_missing_jobs(app):
    name = app("discovered_nested", jobs="import discovered_nested.jobs_of_old")

    with pytest.raises(ConfigurationError, match=r"No module named .discovered_nested\.jobs_of_old"):
        discover(name)


def test_two_apps_with_one_kind_are_both_named(app):
    first = app("discovered_first", jobs=HANDLER.format(kind="discovered:twice"))
    second = app("discovered_second", jobs=HANDLER.format(kind="discovered:twice"))

    with pytest.raises(DuplicateKind) as caught:
        discover(first, second)

    assert "discovered_first.jobs.handler" in str(caught.value)
    assert "discovered_second.jobs.handler" in str(caught.value)


def test_another_name_of_the_module_is_a_setting(app, settings):
    settings.HEADGATE = {"JOBS_MODULE": "tasks"}
    name = app(
        "discovered_tasks",
        tasks=HANDLER.format(kind="discovered:tasks"),
        jobs="raise AssertionError('not this one')",
    )

    assert discover(name) == ["discovered_tasks.tasks"]


def test_discovering_twice_is_harmless(app):
    name = app("discovered_again", jobs=HANDLER.format(kind="discovered:again"))

    assert discover(name) == discover(name) == ["discovered_again.jobs"]


def test_a_module_that_is_reloaded_registers_its_handlers_anew(app):
    name = app("discovered_reload", jobs=HANDLER.format(kind="discovered:reload"))
    discover(name)
    before = registry.find("discovered:reload")

    importlib.reload(sys.modules[f"{name}.jobs"])

    assert registry.find("discovered:reload") is not before
