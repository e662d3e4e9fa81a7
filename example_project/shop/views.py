"""The status page."""

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from example_project.shop.models import Order
from headgate_django.models import Job


@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """How many jobs of each kind stand in each state."""
    jobs = Job.objects.values_list("queue", "state").annotate(jobs=Count("id")).order_by("queue", "state")
    return render(request, "shop/status.html", {"jobs": jobs, "orders": Order.objects.count()})
