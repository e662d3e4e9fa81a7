"""A refused enqueue writes nothing, says why, and leaves the caller's transaction usable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from headgate_django.core.envelope import MAX_KEY_BYTES
from headgate_django.exceptions import InvalidJob, PayloadTooLarge
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Payload
from tests.support.builders import EnvelopeFactory, queued

pytestmark = pytest.mark.django_db

NAMES = ["id", "queue", "partition_key", "rate_class", "sticky_worker"]
MEBIBYTE = 2**20


def refused(*envelopes, match: str, error: type[InvalidJob] = InvalidJob) -> InvalidJob:
    """Refused before any statement; the transaction around it goes on."""
    with transaction.atomic():
        with CaptureQueriesContext(connection) as queries, pytest.raises(error, match=match) as caught:
            enqueue(list(envelopes))
        assert len(queries) == 0
        survivor = queued(queue="survivors")
    assert list(Job.objects.values_list("pk", flat=True)) == [survivor.pk]
    return caught.value


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["a\0b", "\0", "\ud800", "a\udfffb"], ids=ascii)
def test_text_that_a_database_cannot_store_is_refused_by_the_name_of_its_field(now, name, text):
    assert refused(EnvelopeFactory(**{name: text}), match=f"^{name}: must").field == name


@pytest.mark.parametrize("field", ["headers", "tags", "kind"])
def test_so_is_text_in_headers_tags_and_kind(now, field):
    value = {"headers": {"a": "b\0"}, "tags": ("a\0",), "kind": "a\0"}[field]

    assert refused(EnvelopeFactory(**{field: value}), match=f"^{field}: ").field == field


def test_a_bad_item_of_a_batch_is_named(now):
    good = EnvelopeFactory.build_batch(3)

    error = refused(*good, replace(good[0], weight=0), *good, match="^item 3: weight: must be between 1 and")

    assert (error.item, error.field) == (3, "weight")


def test_a_single_job_needs_no_number(now):
    assert refused(replace(EnvelopeFactory(), weight=0), match="^weight: ").item is None


def test_a_batch_of_1001_jobs_is_refused(now):
    refused(*[EnvelopeFactory()] * 1_001, match="^batch: must contain at most 1000 jobs, not 1001")


def test_a_batch_of_more_than_16_mebibytes_is_refused(now):
    full = EnvelopeFactory(payload=b"x" * MEBIBYTE)

    refused(*[full] * 16, EnvelopeFactory(payload=b"x"), match="at most 16777216 payload bytes, not 16777217")


def test_16_mebibytes_are_stored(now):
    assert len(enqueue([EnvelopeFactory(payload=b"x" * MEBIBYTE)] * 16)) == 16


def test_a_payload_of_more_than_a_mebibyte_is_refused(now):
    error = refused(EnvelopeFactory(payload=b"x" * (MEBIBYTE + 1)), match="1048577 bytes", error=PayloadTooLarge)

    assert error.field == "payload"


@pytest.mark.parametrize("character", ["\U0001f680", "日", "й", "x", "'", "\\", "\x01", "\n", "%"], ids=ascii)
def test_the_longest_names_are_stored_listed_and_admitted(now, character):
    # Characters that do not repeat: PostgreSQL compresses repetitions before it measures an index entry.
    width = min(255, MAX_KEY_BYTES // 4 // len(character.encode()) - 20)
    block = ord(character) if len(character.encode()) > 2 else None
    text = "".join(chr(block + n) for n in range(width)) if block else character * width
    names = {name: text[n:] + text[:n] for n, name in enumerate(["id", "queue", "partition_key", "rate_class"])}

    job = queued(**names)

    assert Job.objects.filter(**names).get().pk == job.pk
    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
    assert (claim.id, claim.queue, claim.partition_key, claim.rate_class) == tuple(names.values())
    assert cancel(Job.objects.filter(pk=job.pk)) == 1


def test_names_at_the_limit_of_bytes_fit_into_every_index(now):
    rockets = "".join(chr(0x1F300 + n) for n in range(256))
    keys = {
        "queue": rockets[:200],
        "partition_key": rockets[20:220],
        "rate_class": rockets[40:240],
        "sticky_worker": "w" * (MAX_KEY_BYTES - 2_400),
    }

    for options in ({}, {"delay_ms": 5}, {"pending": True}):
        queued(**keys, **options)
    now.advance(seconds=1)

    claims = Gate(keys["sticky_worker"], queues={keys["queue"]: 1}).admit(5)
    assert len(claims) == 2


def test_names_above_the_limit_of_bytes_are_refused_instead_of_breaking_the_transaction(now):
    rockets = "".join(chr(0x1F300 + n) for n in range(255))

    error = refused(
        EnvelopeFactory(queue=rockets, partition_key=rockets[::-1], rate_class=rockets), match="bytes of UTF-8"
    )

    assert error.field in {"queue", "partition_key", "rate_class"}


def test_the_admissible_queue_of_one_name_never_hides_another(now):
    # The same text in other case, width or composition is another queue, on every database.
    names = ["mail", "Mail", "MAIL", "mail ", "\uff4dail", "é", "e\u0301"]
    for name in names:
        queued(queue=name)

    for name in names:
        [claim] = Gate("w1", queues={name: 1}).admit(5)
        assert claim.queue == name
    assert Payload.objects.count() == len(names)
