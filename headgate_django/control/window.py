"""The search window: the newest jobs, so that a condition without an index never reads the whole table."""

from __future__ import annotations

from django.db.models import Q

from headgate_django.core.states import TERMINAL, State
from headgate_django.models.job import Job

SIZE = 100_000
"""How many jobs are looked at: the newest by id, or of a terminal state the last to enter it."""


def window(using: str, state: State | None = None) -> Q:
    """The condition that keeps a search within the window; empty when there are no more jobs than that."""
    jobs = Job.objects.using(using)
    if state in TERMINAL:
        jobs = jobs.in_state(state).order_by("-finalized_at_ms", "-pk")
        column = "finalized_at_ms"
    else:
        jobs = jobs.order_by("-pk")
        column = "pk"
    # The last job of the window and the first one outside it.
    edge = list(jobs.values_list(column, flat=True)[SIZE - 1 : SIZE + 1])
    return Q(**{f"{column}__gte": edge[0]}) if len(edge) > 1 else Q()
