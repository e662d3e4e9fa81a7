"""What the demo tells a newcomer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.urls import reverse

if TYPE_CHECKING:
    from example_project.shop.demo.stage import Stage

PAGES = {
    "all jobs": "admin:headgate_django_job_changelist",
    "dead letters": "admin:headgate_django_archivedjob_changelist",
    "quarantine": "admin:headgate_django_quarantine_changelist",
    "workers": "admin:headgate_django_worker_changelist",
    "queues": "admin:headgate_django_queue_changelist",
    "orders": "admin:shop_order_changelist",
}

SETTLED = """
Everything has ended as it must. Now it is your turn:
  1. Dead letters: open a job of shop:charge_card and read why it died.
  2. Orders: set the card of that order to "valid". That is the fix.
  3. Dead letters: redrive the job, and see it complete and enqueue its invoice.
  4. Quarantine: a broken photo took one of the two processes down. The supervisor noticed at once and started
     another; from then on the photo ran alone, and after its third crash nobody runs it any more.
  5. Dead letters: the videos that took too much memory and too much time ran in processes of their own.
Ctrl-C stops the demo.
"""

GOODBYE = "everything is stopped; run the demo again whenever you like"


def where_to_look(stage: Stage) -> str:
    """Addresses and login."""
    pages = "\n".join(f"  {title:<14}{stage.browser.root}{reverse(name)}" for title, name in PAGES.items())
    return f"""
Log in:  {stage.browser.root}{reverse("admin:index")}
  user          {stage.username}
  password      {stage.password}
{pages}
Database: {settings.DATABASES["default"]["ENGINE"].rpartition(".")[2]}. Ctrl-C stops everything.
"""
