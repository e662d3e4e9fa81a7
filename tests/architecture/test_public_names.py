"""What a user imports from the package: exactly the names it promises."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

import headgate_django
from headgate_django import exceptions

PROMISED = {
    "Context",
    "Interrupted",
    "RateLimited",
    "Retry",
    "Revoke",
    "Skip",
    "Snooze",
    "Undecodable",
    "aenqueue_many",
    "enqueue_many",
    "explain",
    "job",
}


def test_the_public_names_are_the_promised_ones():
    assert set(headgate_django.__all__) == PROMISED
    assert headgate_django.__all__ == sorted(headgate_django.__all__)


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_a_public_name_can_be_imported_and_says_what_it_is(name):
    found = getattr(headgate_django, name)

    assert found.__doc__


@pytest.mark.parametrize("name", sorted(headgate_django._LAZY))
def test_a_name_that_waits_for_the_apps_is_the_one_of_its_module(name):
    module = import_module(headgate_django._LAZY[name])

    assert getattr(headgate_django, name) is getattr(module, name)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'headgate_django' has no attribute 'enqueu'"):
        _ = headgate_django.enqueu


def test_the_version_is_a_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", headgate_django.__version__)


def test_every_exception_is_drawn_in_the_tree_and_stems_from_one_root():
    own = [item for item in vars(exceptions).values() if isinstance(item, type) and issubclass(item, Exception)]

    for item in own:
        assert issubclass(item, exceptions.HeadgateError)
        assert re.search(rf"\b{item.__name__}\b", exceptions.__doc__), item.__name__


def test_an_unserializable_argument_can_be_caught_as_what_it_is():
    assert issubclass(exceptions.Unserializable, TypeError)
    assert issubclass(exceptions.InvalidJob, ValueError)
    assert issubclass(exceptions.LeaseLost, exceptions.IllegalTransition)
