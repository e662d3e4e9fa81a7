"""The admin in a real browser: log in, open a dead letter, redrive it, read the message."""

from __future__ import annotations

import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import title_contains, visibility_of_element_located
from selenium.webdriver.support.ui import WebDriverWait

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.admin.conftest import BASE
from tests.support.builders import in_state

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,900",
)

pytestmark = [
    pytest.mark.browser,
    # At home a missing browser is said and skipped; in CI it fails.
    pytest.mark.skipif(
        not ((CHROMIUM and DRIVER) or os.environ.get("CI")),
        reason="there is no chromium with chromedriver on this machine",
    ),
]


@pytest.fixture
def browser(tmp_path):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path}"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def visit(browser, live_server, admin_user):
    browser.get(f"{live_server.url}/admin/login/?next={BASE}archivedjob/")
    browser.find_element(By.NAME, "username").send_keys("admin")
    browser.find_element(By.NAME, "password").send_keys("password")
    browser.find_element(By.CSS_SELECTOR, "input[type=submit]").click()
    wait = WebDriverWait(browser, 30)

    def until(selector):
        return wait.until(visibility_of_element_located((By.CSS_SELECTOR, selector)))

    wait.until(title_contains("dead letter"))
    return until


@pytest.mark.django_db(transaction=True)
def test_a_dead_letter_is_redriven_by_its_button(browser, visit):
    job = in_state(State.ARCHIVED)
    browser.refresh()

    visit("#result_list tbody th a").click()
    visit(".headgate-buttons button").click()
    visit("input[name=extra_attempts]").send_keys("2")
    visit(".headgate-buttons button").click()

    assert visit(".messagelist li.success").text == "1 job redriven."
    stored = Job.objects.get(pk=job.pk)
    assert (stored.state, stored.max_attempts) == (State.AVAILABLE, job.max_attempts + 2)


@pytest.mark.django_db(transaction=True)
def test_dead_letters_are_redriven_by_the_list_s_action(browser, visit):
    jobs = [in_state(State.ARCHIVED) for _ in range(3)]
    browser.refresh()

    visit("#action-toggle").click()
    visit("select[name=action] option[value=redrive]").click()
    visit("button[name=index]").click()
    visit(".headgate-buttons button").click()

    assert visit(".messagelist li.success").text == "3 jobs redriven."
    assert set(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("state", flat=True)) == {
        State.AVAILABLE
    }
