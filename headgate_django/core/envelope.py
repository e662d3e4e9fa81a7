"""The envelope: what to run. Validated as a value, before any statement is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ulid import ULID

from headgate_django.core.durations import MAX_INSTANT_MS, MAX_MS
from headgate_django.core.fingerprint import fingerprint
from headgate_django.exceptions import InvalidJob, PayloadTooLarge

MAX_KEY_LENGTH = 255
MAX_KEY_BYTES = 2_560
"""For id and routing names together: what fits into one entry of PostgreSQL's indexes."""
MAX_TAGS, MAX_TAG_LENGTH = 32, 64
MAX_HEADERS, MAX_HEADER_BYTES = 128, 65_536
MAX_PAYLOAD_BYTES = 1_048_576
MAX_BATCH_JOBS, MAX_BATCH_BYTES = 1_000, 16 * 1_048_576
DEFAULT_QUEUE = "default"
DEFAULT_MAX_ATTEMPTS = 25
INT32_MAX = 2**31 - 1

_KIND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.:+]{0,127}", re.ASCII)
_TAG = re.compile(r"[\x20-\x7e]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One job to be stored. Times are milliseconds; 0 means none for timeout and deadline.

    ``scheduled_at_ms`` and ``deadline_ms`` are instants of the store's clock; ``delay_ms`` and
    ``deadline_in_ms`` are added to the store's clock when the job is stored.
    """

    kind: str
    payload: bytes
    id: str = ""
    schema_version: int = 1
    queue: str = DEFAULT_QUEUE
    partition_key: str = ""
    rate_class: str = ""
    sticky_worker: str = ""
    priority: int = 0
    weight: int = 1
    pending: bool = False
    scheduled_at_ms: int = 0
    delay_ms: int = 0
    timeout_ms: int = 0
    deadline_ms: int = 0
    deadline_in_ms: int = 0
    retention_ms: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Content identity, for uniqueness and crash quarantine."""
        return fingerprint(self.kind, self.payload)

    def with_id(self) -> Envelope:
        """The same envelope with an id: the caller's, or a new ULID."""
        return self if self.id else replace(self, id=str(ULID()))

    def __repr__(self) -> str:  # payload and headers are private
        return f"<Envelope {self.kind} id={self.id or 'new'} queue={self.queue} payload={len(self.payload)} bytes>"


def validate(envelope: Envelope) -> None:
    """Check every field. Raises InvalidJob naming the first field that is out of range."""
    check_kind(envelope.kind)
    check_key("queue", envelope.queue, required=True)
    for name in ("id", "partition_key", "rate_class", "sticky_worker"):
        check_key(name, getattr(envelope, name))
    if not envelope.sticky_worker.isascii():
        raise InvalidJob("sticky_worker", "must be ASCII")
    _check_key_bytes(envelope)
    _check_numbers(envelope)
    _check_combinations(envelope)
    check_tags(envelope.tags)
    _check_headers(envelope.headers)
    if not isinstance(envelope.payload, bytes):
        raise InvalidJob("payload", f"must be bytes, not {type(envelope.payload).__name__}")
    if len(envelope.payload) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge("payload", f"is {len(envelope.payload)} bytes, the limit is {MAX_PAYLOAD_BYTES}")


def check_kind(kind: str) -> None:
    """Raise InvalidJob unless ``kind`` fits the grammar."""
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise InvalidJob(
            "kind",
            f"invalid kind {kind!r}: 1-128 ASCII characters, the first [A-Za-z0-9_], the rest [A-Za-z0-9_] "
            "or one of -[]<>/.:+",
        )


def check_key(name: str, value: str, *, required: bool = False) -> None:
    """Raise InvalidJob unless ``value`` is storable text of at most 255 characters on every database."""
    if not isinstance(value, str):
        raise InvalidJob(name, f"must be a str, not {type(value).__name__}")
    if required and not value:
        raise InvalidJob(name, "must not be empty")
    if len(value) > MAX_KEY_LENGTH:
        raise InvalidJob(name, f"must be at most {MAX_KEY_LENGTH} characters, not {len(value)}")
    check_text(name, value)


def check_text(name: str, value: str) -> None:
    """Raise InvalidJob for text that some database refuses: NUL characters and lone surrogates."""
    if "\0" in value:
        raise InvalidJob(name, "must not contain NUL characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidJob(name, "must not contain lone surrogates") from None


def check_tags(tags: tuple[str, ...]) -> None:
    """Raise InvalidJob unless the tags are few, short, printable ASCII and distinct."""
    if len(tags) > MAX_TAGS:
        raise InvalidJob("tags", f"must contain at most {MAX_TAGS} values, not {len(tags)}")
    for tag in tags:
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise InvalidJob("tags", f"each tag must be 1-{MAX_TAG_LENGTH} printable ASCII characters: {tag!r}")
    if len(set(tags)) != len(tags):
        raise InvalidJob("tags", "must not contain duplicates")


def _check_key_bytes(envelope: Envelope) -> None:
    names = ("id", "queue", "partition_key", "rate_class", "sticky_worker")
    sizes = {name: len(getattr(envelope, name).encode()) for name in names}
    total = sum(sizes.values())
    if total > MAX_KEY_BYTES:
        longest = max(sizes, key=lambda name: sizes[name])
        raise InvalidJob(
            longest,
            f"{', '.join(names)} together must be at most {MAX_KEY_BYTES} bytes of UTF-8, not {total}",
        )


def _check_numbers(envelope: Envelope) -> None:
    for name, minimum, maximum in (
        ("schema_version", 1, INT32_MAX),
        ("priority", -INT32_MAX - 1, INT32_MAX),
        ("weight", 1, INT32_MAX),
        ("max_attempts", 1, INT32_MAX),
        ("scheduled_at_ms", 0, MAX_INSTANT_MS),
        ("delay_ms", 0, MAX_MS),
        ("timeout_ms", 0, MAX_MS),
        ("deadline_ms", 0, MAX_INSTANT_MS),
        ("deadline_in_ms", 0, MAX_MS),
        ("retention_ms", 0, MAX_MS),
    ):
        value = getattr(envelope, name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidJob(name, f"must be an int, not {type(value).__name__}")
        if not minimum <= value <= maximum:
            raise InvalidJob(name, f"must be between {minimum} and {maximum}, not {value}")


def _check_combinations(envelope: Envelope) -> None:
    if not isinstance(envelope.pending, bool):
        raise InvalidJob("pending", f"must be a bool, not {type(envelope.pending).__name__}")
    for first, second in (
        ("scheduled_at_ms", "delay_ms"),
        ("deadline_ms", "deadline_in_ms"),
        ("pending", "scheduled_at_ms"),
        ("pending", "delay_ms"),
    ):
        if getattr(envelope, first) and getattr(envelope, second):
            raise InvalidJob(first, f"cannot be combined with {second}")


def _check_headers(headers: Mapping[str, str]) -> None:
    if not isinstance(headers, Mapping):
        raise InvalidJob("headers", f"must map str to str, not be a {type(headers).__name__}")
    if len(headers) > MAX_HEADERS:
        raise InvalidJob("headers", f"must contain at most {MAX_HEADERS} values, not {len(headers)}")
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidJob("headers", "must map str to str")
        check_text("headers", name)
        check_text("headers", value)
        size += len(name.encode()) + len(value.encode())
    if size > MAX_HEADER_BYTES:
        raise InvalidJob("headers", f"must total at most {MAX_HEADER_BYTES} bytes, not {size}")
