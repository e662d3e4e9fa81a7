"""The verbs on jobs: which event each is, which permission it asks for. Where it starts is read from the law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate_django.core.states import Event, State, events_from, target


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One thing an operator can do to a job. ``past`` is the word of the record."""

    name: str
    event: Event
    permission: str
    past: str
    deletes: bool = False

    def starts_from(self, state: State) -> bool:
        """Whether the law lets this verb start there."""
        # DISCARD of an available job is the gate's (saturation) and archives it; an operator's deletes.
        return self.event in events_from(state) and (target(state, self.event) is State.DELETED) == self.deletes


REDRIVE = Verb(name="redrive", event=Event.REDRIVE, permission="redrive_job", past="Redriven")
RELEASE = Verb(name="release", event=Event.RELEASE, permission="release_quarantine", past="Released")
PROMOTE = Verb(name="promote", event=Event.PROMOTE, permission="promote_job", past="Promoted")
CANCEL = Verb(name="cancel", event=Event.CANCEL, permission="cancel_job", past="Cancelled")
DISCARD = Verb(name="discard", event=Event.DISCARD, permission="discard_job", past="Discarded", deletes=True)

VERBS: Mapping[str, Verb] = MappingProxyType(
    {verb.name: verb for verb in (REDRIVE, RELEASE, PROMOTE, CANCEL, DISCARD)}
)


def verbs_from(state: State) -> tuple[Verb, ...]:
    """The verbs that a job in this state allows."""
    return tuple(verb for verb in VERBS.values() if verb.starts_from(state))
