"""Who performs a duty: the holder of its lease in the database. No elected leader."""

from __future__ import annotations

from headgate_django.models import clock
from headgate_django.models.fleet import Duty
from headgate_django.models.store import execute, fetch


def acquire(name: str, holder: str, ttl_ms: int, *, using: str) -> bool:
    """Take or keep the duty for ``ttl_ms``; False while somebody else holds it. One statement."""
    now = clock.now_sql(using)
    rows = fetch(
        using,
        f"""
        INSERT INTO headgate_django_duty (name, holder, expires_at_ms, handled)
        VALUES (%s, %s, {now} + %s, 0)
        ON CONFLICT (name) DO UPDATE
        SET holder = excluded.holder, expires_at_ms = excluded.expires_at_ms
        WHERE headgate_django_duty.holder = excluded.holder OR headgate_django_duty.expires_at_ms <= {now}
        RETURNING holder
        """,
        [name, holder, ttl_ms],
    )
    return bool(rows)


def count(name: str, handled: int, *, using: str) -> None:
    """Add to what the duty has handled since it first ran."""
    execute(using, "UPDATE headgate_django_duty SET handled = handled + %s WHERE name = %s", [handled, name])


def release(holder: str, *, using: str) -> None:
    """Give back every duty of a worker that ends, so that another can take over at once."""
    # The time stays: health reads from it for how long nobody has held the duty.
    Duty.objects.using(using).filter(holder=holder).update(holder="", expires_at_ms=clock.now_ms(using))
