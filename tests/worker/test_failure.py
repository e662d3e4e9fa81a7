"""Any exception becomes bounded text that every database stores."""

from __future__ import annotations

import pytest

from headgate_django.core.text import bounded
from headgate_django.worker.failure import MAX_MESSAGE, MAX_TRACEBACK, describe


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class NeedsTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        self.socket = open  # anything that cannot be pickled
        super().__init__(one)

    def __reduce__(self):
        raise TypeError("never pickled")


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("boom"), "boom"),
        (ValueError(""), "ValueError"),
        (ValueError(None), "None"),
        (ValueError("a\0b"), "a\\x00b"),
        (ValueError("lone \ud800 surrogate"), "lone \\ud800 surrogate"),
        (Unprintable(), "<Unprintable whose message raised RuntimeError>"),
        (NeedsTwo(1, 2), "1"),
    ],
)
def test_the_message_is_storable(error, message):
    failure = describe(caught(error))

    assert failure.message == message
    assert "\0" not in failure.traceback
    failure.traceback.encode()


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_a_huge_message_is_cut_in_the_middle_and_says_so(size):
    failure = describe(caught(ValueError("A" + "🎈" * size + "Z")))

    assert len(failure.message) < MAX_MESSAGE + 100
    assert failure.message.startswith("A")
    assert failure.message.endswith("Z")
    assert f"of {size + 2} characters left out" in failure.message
    assert len(failure.traceback) < MAX_TRACEBACK + 100


def test_a_group_of_ten_thousand_is_bounded():
    failure = describe(caught(ExceptionGroup("many", [ValueError(str(n)) for n in range(10_000)])))

    assert len(failure.traceback) < MAX_TRACEBACK + 100
    assert "ValueError: 0" in failure.traceback


def test_a_recursion_error_is_described():
    def recurse() -> None:
        recurse()

    try:
        recurse()
    except RecursionError as error:
        failure = describe(error)

    assert failure.error_class == "RecursionError"
    assert failure.traceback.rstrip().endswith("RecursionError: maximum recursion depth exceeded")


def test_the_cause_is_in_the_traceback():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        failure = describe(error)

    assert "KeyError: 'inner'" in failure.traceback
    assert "ValueError: outer" in failure.traceback


def test_failures_of_one_place_and_class_share_a_group_whatever_they_say():
    assert describe(caught(ValueError("a"))).group == describe(caught(ValueError("b"))).group
    assert describe(caught(ValueError("a"))).group != describe(caught(TypeError("a"))).group


def test_the_class_is_named_with_its_module_unless_builtin():
    assert describe(ValueError()).error_class == "ValueError"
    assert describe(Unprintable()).error_class == f"{__name__}.Unprintable"


def test_short_text_is_untouched():
    assert bounded("short", 5) == "short"
