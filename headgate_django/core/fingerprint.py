"""Content identity: what makes two jobs the same work."""

from __future__ import annotations

import hashlib
import struct


def fingerprint(kind: str, payload: bytes) -> str:
    """32 hex characters: SHA-256 over length-prefixed kind and payload, the first 16 bytes."""
    encoded = kind.encode()
    digest = hashlib.sha256(struct.pack("<I", len(encoded)) + encoded)
    digest.update(struct.pack("<I", len(payload)) + payload)
    return digest.hexdigest()[:32]
