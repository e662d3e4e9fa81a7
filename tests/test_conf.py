"""The HEADGATE setting and the system checks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps

from headgate_django.checks import check_database, check_references, check_settings
from headgate_django.conf import config, parse
from headgate_django.models import ArchivedJob, Attempt, Job


def test_durations_are_seconds_or_timedeltas_and_kept_in_milliseconds():
    assert parse({"RETENTION": 1.5}).retention == 1_500
    assert parse({"RETENTION": timedelta(days=1)}).retention == 86_400_000
    assert parse({}).retention == 7 * 86_400_000


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"RETENSION": 1}, r"HEADGATE\['RETENSION'\] is not a setting; did you mean 'RETENTION'\?"),
        ({"retention": 1}, r"HEADGATE\['retention'\] is not a setting"),
        ({"RETENTION": -1}, r"HEADGATE\['RETENTION'\]: must be at least 0"),
        ({"RETENTION": "7d"}, r"HEADGATE\['RETENTION'\]: must be seconds or a timedelta"),
        ({"MAX_ATTEMPTS": 0}, r"HEADGATE\['MAX_ATTEMPTS'\] must be an int of at least 1"),
        ({"MAX_ATTEMPTS": True}, r"HEADGATE\['MAX_ATTEMPTS'\] must be an int"),
        ({"CRASH_LIMIT": 1.5}, r"HEADGATE\['CRASH_LIMIT'\] must be an int"),
        ({"KEEP_ATTEMPTS": "failure"}, r"did you mean 'failures'\?"),
        ({"WORKER": []}, r"HEADGATE\['WORKER'\] must be a dict"),
        ({"LISTEN": "always"}, r"HEADGATE\['LISTEN'\] must be True, False or 'auto', not 'always'"),
        ({"DATABASE": 1}, r"HEADGATE\['DATABASE'\] must be a str"),
        ([], "HEADGATE must be a dict"),
    ],
)
def test_a_wrong_setting_is_named(declared, message):
    with pytest.raises(ImproperlyConfigured, match=message):
        parse(declared)


def test_an_overridden_setting_is_seen(settings):
    settings.HEADGATE = {"CRASH_LIMIT": 9}

    assert config().crash_limit == 9


def test_the_check_reports_a_wrong_setting_and_an_unknown_database(settings):
    settings.HEADGATE = {"CRASH": 9}
    assert [message.id for message in check_settings()] == ["headgate_django.E001"]

    settings.HEADGATE = {"DATABASE": "elsewhere"}
    assert [message.id for message in check_settings()] == ["headgate_django.E002"]

    settings.HEADGATE = {}
    assert check_settings() == []


def referring(name: str, field: models.Field) -> list[str]:
    with isolate_apps("tests.sample") as isolated:
        type("Order", (models.Model,), {"__module__": "tests.sample.models", name: field})
        return [f"{message.id} {message.msg}" for message in check_references(isolated.get_app_configs())]


@pytest.mark.parametrize("target", [Job, ArchivedJob, Attempt])
def test_a_foreign_key_to_a_job_is_reported(target):
    [message] = referring("job", models.ForeignKey(target, models.CASCADE, related_name="+"))

    assert message.startswith("headgate_django.W003 sample.Order.job points to a job")


def test_a_table_between_orders_and_jobs_is_reported():
    [message] = referring("jobs", models.ManyToManyField(Job, related_name="+"))

    assert message.startswith("headgate_django.W003 sample.Order_jobs.job points to a job")


def test_a_key_that_the_database_does_not_enforce_is_not_reported():
    key = models.ForeignKey(Job, models.DO_NOTHING, related_name="+", db_constraint=False)

    assert referring("job", key) == []


def test_a_key_to_a_model_that_does_not_exist_is_left_to_django():
    assert referring("job", models.ForeignKey("sample.Missing", models.CASCADE, related_name="+")) == []


def test_nothing_here_points_to_a_job():
    assert check_references() == []


def test_the_database_check_is_clean_here(db):
    assert check_database(databases=["default"]) == []
    assert check_database(databases=None) == []
