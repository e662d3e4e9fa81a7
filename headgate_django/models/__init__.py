"""Tables, querysets and guards."""

from headgate_django.models.attempt import Attempt
from headgate_django.models.fleet import Duty, Worker
from headgate_django.models.job import Job, JobQuerySet
from headgate_django.models.limits import ConcurrencyLimit, RateBucket, RateBudget, RateClass
from headgate_django.models.payload import Payload
from headgate_django.models.proxies import ArchivedJob
from headgate_django.models.quarantine import Quarantine, Suspect
from headgate_django.models.queue import Partition, Queue

__all__ = [
    "ArchivedJob",
    "Attempt",
    "ConcurrencyLimit",
    "Duty",
    "Job",
    "JobQuerySet",
    "Partition",
    "Payload",
    "Quarantine",
    "Queue",
    "RateBucket",
    "RateBudget",
    "RateClass",
    "Suspect",
    "Worker",
]
