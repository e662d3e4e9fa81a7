"""Old arguments meet new code: each version has a path, or the job is kept as undecodable."""

from __future__ import annotations

from typing import Any

import pytest

from headgate_django import Undecodable, job
from headgate_django.exceptions import ConfigurationError
from headgate_django.jobs.upcast import upcast


@pytest.fixture
def greet() -> Any:
    @job("upcast:greet", schema_version=3)
    def greet(full_name: str, greeting: str) -> None: ...

    @greet.upcaster(1)
    def _(arguments: dict) -> dict:
        return {"full_name": arguments.pop("name")}

    @greet.upcaster(2)
    def _(arguments: dict) -> dict:
        return {**arguments, "greeting": "Hello"}

    return greet


@pytest.mark.parametrize(
    ("version", "stored"),
    [
        (1, {"name": "Ada"}),
        (2, {"full_name": "Ada"}),
        (3, {"full_name": "Ada", "greeting": "Hello"}),
    ],
)
def test_every_older_version_becomes_the_current_one(greet, version, stored):
    assert upcast(greet, stored, version) == {"full_name": "Ada", "greeting": "Hello"}


def test_a_new_job_carries_the_current_version(greet):
    assert greet.envelope("Ada", "Hello").schema_version == 3


def test_a_copy_with_other_options_knows_the_same_paths(greet):
    assert upcast(greet.using(queue="fast"), {"name": "Ada"}, 1)["greeting"] == "Hello"


def test_the_stored_arguments_are_not_changed(greet):
    stored = {"name": "Ada"}

    upcast(greet, stored, 1)

    assert stored == {"name": "Ada"}


def test_a_newer_version_than_this_code_knows_is_undecodable(greet):
    with pytest.raises(Undecodable, match="schema version 4 is newer than this code, which knows 3"):
        upcast(greet, {}, 4)


def test_a_missing_path_is_undecodable():
    @job("upcast:gap", schema_version=3)
    def gap() -> None: ...

    @gap.upcaster(1)
    def _(arguments: dict) -> dict:
        return arguments

    with pytest.raises(Undecodable, match="no upcast path for schema version 2"):
        upcast(gap, {}, 1)


@pytest.mark.parametrize("error", [KeyError("name"), RecursionError(), ValueError("secret")])
def test_an_upcaster_that_raises_makes_the_job_undecodable_without_quoting_it(error):
    @job("upcast:broken", schema_version=2)
    def broken() -> None: ...

    @broken.upcaster(1)
    def _(arguments: dict) -> dict:
        raise error

    with pytest.raises(Undecodable, match=f"upcaster from version 1 failed: {type(error).__name__}$") as caught:
        upcast(broken, {}, 1)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("result", [None, [], "text", 5])
def test_an_upcaster_that_returns_no_dict_makes_the_job_undecodable(result):
    @job("upcast:strange", schema_version=2)
    def strange() -> None: ...

    @strange.upcaster(1)
    def _(arguments: dict) -> Any:
        return result

    with pytest.raises(Undecodable, match=f"returned {type(result).__name__}, not a dict"):
        upcast(strange, {}, 1)


@pytest.mark.parametrize("version", [0, -1, 3, 4])
def test_an_upcaster_of_a_version_that_never_was_is_refused_at_import(greet, version):
    with pytest.raises(ConfigurationError, match=f"upcast:greet: an upcaster from version {version} needs"):
        greet.upcaster(version)


def test_two_upcasters_of_one_version_are_refused_at_import(greet):
    with pytest.raises(ConfigurationError, match="upcast:greet: two upcasters from version 1"):

        @greet.upcaster(1)
        def _(arguments: dict) -> dict:
            return arguments
