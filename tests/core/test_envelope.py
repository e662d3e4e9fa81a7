"""Every field of an envelope has its bounds, and a refusal names the field."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.durations import MAX_INSTANT_MS, MAX_MS
from headgate_django.core.envelope import MAX_KEY_BYTES, Envelope, validate
from headgate_django.exceptions import InvalidJob, PayloadTooLarge

PLAIN = Envelope(kind="sample:ok", payload=b"\x80")
INT32_MAX = 2**31 - 1
KEYS = ("id", "queue", "partition_key", "rate_class", "sticky_worker")

LIMITS = [
    ("schema_version", 1, INT32_MAX),
    ("priority", -(2**31), INT32_MAX),
    ("weight", 1, INT32_MAX),
    ("max_attempts", 1, INT32_MAX),
    ("scheduled_at_ms", 0, MAX_INSTANT_MS),
    ("deadline_ms", 0, MAX_INSTANT_MS),
    ("delay_ms", 0, MAX_MS),
    ("timeout_ms", 0, MAX_MS),
    ("deadline_in_ms", 0, MAX_MS),
    ("retention_ms", 0, MAX_MS),
]


def refused(field: str, **changes: Any) -> InvalidJob:
    with pytest.raises(InvalidJob) as caught:
        validate(replace(PLAIN, **changes))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    return caught.value


def test_a_plain_envelope_is_valid():
    validate(PLAIN)


@pytest.mark.parametrize("kind", ["a", "_", "9", "email:welcome", "a.b-c[d]<e>/f:g+h", "A" * 128])
def test_a_kind_may_use_the_whole_grammar(kind):
    validate(replace(PLAIN, kind=kind))


@pytest.mark.parametrize(
    "kind", ["", "-a", ":a", " a", "a b", "a\n", "a\0", "é", "a" * 129, "a,b", "\uff41", "٣", None, 5, b"a"]
)
def test_a_kind_outside_the_grammar_is_refused(kind):
    refused("kind", kind=kind)


@pytest.mark.parametrize("field", KEYS)
def test_a_name_may_have_255_characters(field):
    validate(replace(PLAIN, **{field: "x" * 255}))
    refused(field, **{field: "x" * 256})


@pytest.mark.parametrize("field", KEYS)
@pytest.mark.parametrize("bad", ["nul\0", "\0", "surrogate\ud800", "\udfff", 5, b"bytes"], ids=ascii)
def test_a_name_that_some_database_cannot_store_is_refused_by_its_field(field, bad):
    refused(field, **{field: bad})


@pytest.mark.parametrize("field", ["id", "queue", "partition_key", "rate_class"])
def test_a_name_may_be_any_other_text(field):
    for text in ("mündlich", "日本", "\U0001f600", "a b\tc\n", "\x01", "'; DROP TABLE", "%s", "\\", "null"):
        validate(replace(PLAIN, **{field: text}))


def test_a_queue_needs_a_name():
    assert "must not be empty" in str(refused("queue", queue=""))


def test_a_sticky_worker_is_ascii():
    refused("sticky_worker", sticky_worker="wörker")


def test_all_names_may_be_longest_at_once_in_two_byte_characters():
    wide = dict.fromkeys(("id", "queue", "partition_key", "rate_class"), "й" * 255)

    validate(replace(PLAIN, sticky_worker="w" * 255, **wide))


def test_names_that_would_not_fit_into_an_index_together_are_refused_by_the_longest():
    error = refused("queue", id="😀" * 200, queue="😀" * 255, partition_key="😀" * 254)

    assert f"at most {MAX_KEY_BYTES} bytes of UTF-8, not {4 * 709}" in str(error)


@pytest.mark.parametrize(("field", "minimum", "maximum"), LIMITS)
def test_a_number_is_accepted_up_to_its_bounds_and_no_further(field, minimum, maximum):
    for value in (minimum, maximum):
        validate(replace(PLAIN, **{field: value}))
    for value in (minimum - 1, maximum + 1, 2**63, -(2**63), 10**30):
        refused(field, **{field: value})


@pytest.mark.parametrize("field", [field for field, _, _ in LIMITS])
@pytest.mark.parametrize("bad", [True, 1.0, "1", None])
def test_a_number_of_another_type_is_refused(field, bad):
    refused(field, **{field: bad})


@pytest.mark.parametrize(
    "both",
    [
        {"scheduled_at_ms": 1, "delay_ms": 1},
        {"deadline_ms": 1, "deadline_in_ms": 1},
        {"pending": True, "scheduled_at_ms": 1},
        {"pending": True, "delay_ms": 1},
    ],
)
def test_fields_that_contradict_each_other_are_refused(both):
    first, second = both

    assert f"cannot be combined with {second}" in str(refused(first, **both))


@pytest.mark.parametrize("bad", ["no", 1, None])
def test_pending_is_a_bool(bad):
    refused("pending", pending=bad)


def test_tags_are_few_short_printable_and_distinct():
    validate(replace(PLAIN, tags=tuple(f"tag-{n} ~" for n in range(32))))
    validate(replace(PLAIN, tags=("t" * 64,)))
    for bad in (
        tuple(str(n) for n in range(33)),
        ("t" * 65,),
        ("",),
        ("a\n",),
        ("é",),
        ("a\0",),
        ("a", "a"),
        (5,),
    ):
        refused("tags", tags=bad)


def test_headers_are_bounded_text():
    validate(replace(PLAIN, headers={f"h{n}": "" for n in range(128)}))
    validate(replace(PLAIN, headers={"h": "é" * 32_767}))
    for bad in (
        {f"h{n}": "" for n in range(129)},
        {"hh": "é" * 32_768},
        {"h": 5},
        {5: "h"},
        {"h": "nul\0"},
        {"nul\0": "h"},
        {"h": "\ud800"},
        [("h", "v")],
        None,
    ):
        refused("headers", headers=bad)


def test_a_payload_is_bytes_of_at_most_a_mebibyte():
    validate(replace(PLAIN, payload=b"x" * 2**20))
    assert isinstance(refused("payload", payload=b"x" * (2**20 + 1)), PayloadTooLarge)
    for bad in ("text", None, bytearray(b"x")):
        refused("payload", payload=bad)


def test_the_error_of_a_batch_names_the_item():
    error = refused("weight", weight=0).at_item(7)

    assert (str(error), error.item) == ("item 7: weight: must be between 1 and 2147483647, not 0", 7)


def test_a_missing_id_becomes_a_fresh_one_and_a_given_id_stays():
    made = {PLAIN.with_id().id for _ in range(1_000)}

    assert len(made) == 1_000
    assert {len(job_id) for job_id in made} == {26}
    assert replace(PLAIN, id="mine").with_id().id == "mine"


def test_an_envelope_never_shows_payload_or_headers():
    shown = repr(replace(PLAIN, payload=b"secret", headers={"token": "secret"}))

    assert "secret" not in shown
    assert "sample:ok" in shown


anything = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=300), st.binary())


@settings(max_examples=300, deadline=None)
@given(field=st.sampled_from([*KEYS, "kind", "pending", *(field for field, _, _ in LIMITS)]), value=anything)
def test_no_value_of_any_field_escapes_as_another_error(field, value):
    with suppress(InvalidJob):
        validate(replace(PLAIN, **{field: value}))
