"""Facts, sent after commit. Nothing correct depends on a receiver, and a receiver that raises is logged.

All are sent with ``sender=Job`` and ``using`` (the database alias):

``job_enqueued``      ``jobs``: list of ``Job``
``job_admitted``      ``claims``: list of ``Claim``
``job_transitioned``  ``job_ids``, ``event``, ``state``: ids that entered ``state`` by ``event``
``job_died``          ``job_ids``, ``event``, ``state``: those that entered archived, quarantined, undecodable
``jobs_evicted``      ``count``: rows deleted because their retention had passed
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.dispatch import Signal

job_enqueued = Signal()
job_admitted = Signal()
job_transitioned = Signal()
job_died = Signal()
jobs_evicted = Signal()


def send_after_commit(signal: Signal, sender: type, *, using: str, **facts: Any) -> None:
    """Send once the surrounding transaction has committed; free when nobody listens."""
    if signal.has_listeners(sender):
        transaction.on_commit(lambda: signal.send_robust(sender, using=using, **facts), using=using, robust=True)
