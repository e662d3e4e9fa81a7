"""The screens of rate classes and concurrency limits."""

from __future__ import annotations

from headgate_django.models import ConcurrencyLimit, RateBudget, RateClass
from tests.admin.conftest import BASE
from tests.support.builders import queued, running


def budget_rows(*rows: dict[str, object]) -> dict[str, object]:
    data: dict[str, object] = {"budgets-TOTAL_FORMS": len(rows), "budgets-INITIAL_FORMS": 0}
    for index, row in enumerate(rows):
        data |= {f"budgets-{index}-{name}": value for name, value in row.items()}
    return data


def test_a_rate_class_is_made_with_its_budgets_and_a_missing_burst_is_the_limit(site):
    rows = budget_rows({"limit": 100, "window_ms": 60_000}, {"limit": 5, "window_ms": 1_000, "burst": 1})

    page = site.post(f"{BASE}rateclass/add/", {"name": "api", **rows}, follow=True)

    assert page.status_code == 200
    assert RateClass.objects.get().declared is None
    assert list(RateBudget.objects.values_list("limit", "window_ms", "burst")) == [
        (100, 60_000, 100),
        (5, 1_000, 1),
    ]


def test_a_budget_of_nothing_is_refused_with_its_field(site):
    page = site.post(
        f"{BASE}rateclass/add/", {"name": "api", **budget_rows({"limit": 0, "window_ms": 0})}, follow=True
    )

    assert RateClass.objects.count() == 0
    errors = page.context["inline_admin_formsets"][0].formset.errors[0]
    assert set(errors) >= {"limit", "window_ms"}


def test_pausing_a_class_needs_its_own_permission(client_with):
    RateClass.objects.create(name="api")
    data = {"paused": "on", **budget_rows()}

    client_with("view_rateclass", "change_rateclass").post(f"{BASE}rateclass/api/change/", data)
    assert RateClass.objects.filter(paused=True).count() == 0

    client_with("view_rateclass", "change_rateclass", "pause_rateclass").post(f"{BASE}rateclass/api/change/", data)
    assert RateClass.objects.filter(paused=True).count() == 1


def test_the_page_of_a_class_shows_what_is_left_in_its_buckets(site, now, admit):
    row = RateClass.objects.create(name="api")
    RateBudget.objects.create(rate_class=row, limit=5, window_ms=60_000, burst=5)
    for _ in range(3):
        queued(rate_class="api")
    admit(10)

    page = site.get(f"{BASE}rateclass/api/change/").content.decode()

    assert "5 per 60 s: 2 of 5" in page


def test_the_list_of_limits_shows_what_runs_under_each(site):
    ConcurrencyLimit.objects.create(name="three", scope="queue", key="builders", max_concurrent=3)
    running()

    page = site.get(f"{BASE}concurrencylimit/").content.decode()

    assert "1 / 3" in page


def test_a_limit_is_made_and_edited_but_keeps_its_name(site):
    data = {"scope": "partition", "key": "q", "max_concurrent": 2, "on_saturated": "discard"}

    site.post(f"{BASE}concurrencylimit/add/", {"name": "two", **data})
    site.post(f"{BASE}concurrencylimit/two/change/", {**data, "name": "other", "max_concurrent": 4})

    assert list(ConcurrencyLimit.objects.values_list("name", "max_concurrent")) == [("two", 4)]


def test_markup_in_names_is_text(site):
    RateClass.objects.create(name="<script>alert(1)</script>")
    ConcurrencyLimit.objects.create(name="<i>x</i>", scope="queue", key="<b>q</b>", max_concurrent=1)

    pages = site.get(f"{BASE}rateclass/").content + site.get(f"{BASE}concurrencylimit/").content

    assert b"<script>alert" not in pages
    assert b"<i>x" not in pages
    assert b"<b>q" not in pages
