"""Text that every database stores, whatever it was before."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text with its NUL characters and lone surrogates written as escapes."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def bounded(text: str, limit: int) -> str:
    """Storable text; of more than ``limit`` characters the beginning and the end, and how much is left out."""
    if len(text) > limit:
        head, tail = text[: limit // 4], text[-(limit - limit // 4) :]
        text = f"{head}\n… {len(text) - limit} of {len(text)} characters left out …\n{tail}"
    return storable(text)
