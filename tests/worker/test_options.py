"""A flag beats the environment, which beats the settings, which beat the default; bad values are named."""

from __future__ import annotations

import pytest

from headgate_django.exceptions import ConfigurationError
from headgate_django.worker.options import OPTIONS, resolve


def test_defaults():
    options = resolve({}, {})

    assert dict(options.queues) == {"*": 1}
    assert (options.threads, options.lease, options.shutdown_timeout) == (10, 30_000, 25_000)
    assert options.name


def test_a_flag_beats_the_environment_which_beats_the_setting(settings):
    settings.HEADGATE = {"WORKER": {"THREADS": 3, "LEASE": 12, "MAX_JOBS": 9}}

    options = resolve({"threads": "5"}, {"HEADGATE_THREADS": "4", "HEADGATE_LEASE": "6"})

    assert (options.threads, options.lease, options.max_jobs) == (5, 6_000, 9)


def test_queues_have_weights():
    assert resolve({"queues": "critical:6, default:3,mail"}, {}).queues == {"critical": 6, "default": 3, "mail": 1}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"queues": ""}, "--queues names no queue"),
        ({"queues": "a:0"}, "--queues: weight of 'a' must be at least 1"),
        ({"queues": "a:x"}, "--queues: weight of 'a' must be a whole number"),
        ({"queues": "a,a"}, "--queues names queue 'a' twice"),
        ({"queues": ":3"}, "--queues: must not be empty"),
        ({"queues": "x" * 256}, "--queues: must be at most 255"),
        ({"threads": "0"}, "--threads must be at least 1"),
        ({"threads": "1.5"}, "--threads must be a whole number"),
        ({"lease": "0.5"}, "--lease: must be at least 1 seconds"),
        ({"lease": "nan"}, "--lease: must be finite"),
        ({"lease": "soon"}, "--lease must be a number of seconds"),
        ({"shutdown_timeout": "-1"}, "--shutdown-timeout: must be at least 0"),
        ({"threads": "10001"}, "--threads must be at most 10000, not '10001'"),
        ({"name": "wörker"}, "--name must be ASCII"),
        ({"name": "x" * 231}, "--name must be at most 230 characters long, not 231"),
        ({"health_port": "65536"}, "--health-port must be at most 65535"),
    ],
)
def test_a_bad_flag_is_named(flags, message):
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        resolve(flags, {})


def test_a_bad_variable_is_named():
    with pytest.raises(ConfigurationError, match="HEADGATE_BURST must be true or false, not 'maybe'"):
        resolve({}, {"HEADGATE_BURST": "maybe"})


def test_a_setting_that_is_none_is_not_given(settings):
    settings.HEADGATE = {"WORKER": {"CODE_VERSION": None, "NAME": None, "DATABASE": None, "THREADS": None}}

    options = resolve({}, {})

    assert (options.code_version, options.database, options.threads) == ("", "", 10)
    assert options.name not in ("", "None")


def test_an_unknown_setting_is_named_with_a_suggestion(settings):
    settings.HEADGATE = {"WORKER": {"THREDS": 3}}

    with pytest.raises(ConfigurationError, match=r"'THREDS'.*did you mean 'THREADS'"):
        resolve({}, {})


def test_every_option_has_a_flag_a_variable_and_a_sentence():
    for option in OPTIONS:
        assert option.flag.startswith("--")
        assert option.variable.startswith("HEADGATE_")
        assert option.help.endswith(".") or ";" in option.help
