"""Content identity: fixed for ever, because stored quarantines are compared with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.fingerprint import fingerprint

VECTORS = [
    ("email:welcome", b"", "bed0eecb39af02d79d5cdc8026a9b817"),
    ("", b"", "af5570f5a1810b7af78caf4bc70a660f"),
    ("a", b"bc", "47ea6f805c5b663e33012cd34184e139"),
    ("ab", b"c", "60014a36d7b05b0730e42a8b96faa1ff"),
    ("charge", b"\x00\x01\x02", "295e280cea51e7f3978bc3195d8fd4ae"),
    ("résumé:parse", b"{}", "a9b8c5d03aa1a0710129091fa3dc0a1d"),
]


@pytest.mark.parametrize(("kind", "payload", "expected"), VECTORS)
def test_the_known_vectors_hold(kind, payload, expected):
    assert fingerprint(kind, payload) == expected


@settings(max_examples=100, deadline=None)
@given(kind=st.text(max_size=20), payload=st.binary(max_size=50), cut=st.integers(1, 5))
def test_moving_bytes_between_kind_and_payload_changes_the_identity(kind, payload, cut):
    moved = payload[:cut].decode("ascii", "ignore")

    if moved:
        assert fingerprint(kind + moved, payload[len(moved) :]) != fingerprint(kind, payload)
