"""The reference page of ``manage.py headgate_worker``: options, signals, exit codes, processes."""

from __future__ import annotations

from docs.pages.markdown import page, table
from headgate_django.worker.options import OPTIONS, Option
from headgate_django.worker.supervisor.slot import LONGEST_PAUSE
from headgate_django.worker.supervisor.supervisor import GIVE_UP_AFTER, LAST_RESORT_SECONDS
from headgate_django.worker.supervisor.verdict import FROZEN_SECONDS, LEAVE_SECONDS

SIGNALS = (
    (
        "`SIGTERM`, `SIGINT`, `SIGHUP`",
        "Admits no more and lets running jobs finish for `--shutdown-timeout`. Then gives back the leases of "
        "those that still run: an interruption, which costs the job nothing, and it is available again at once. "
        "Ends with 0.",
    ),
    ("a second one of these", "Gives running jobs back at once."),
    ("`SIGQUIT`", "Kills all processes now. Their leases are given back as interruptions. Ends with 0."),
    (
        "`SIGTSTP`, `SIGUSR1`",
        "Quiet: admits no more, goes on with what runs, and stays. `manage.py headgate workers resume` undoes it.",
    ),
    ("`SIGUSR2`", "Writes into the log where each running handler is: its stack."),
)

EXIT_CODES = (
    ("0", "Stopped as asked, or nothing left to do (`--burst`)."),
    (
        "1",
        "An option, a setting or a jobs module is wrong; the message names it. Or "
        f"{GIVE_UP_AFTER} processes in a row, in every place, ended before they were ready.",
    ),
    ("2", "There is no such flag."),
)

CHILDREN = (
    (
        "It has run `--max-jobs` jobs, or has grown beyond `--max-memory`",
        "It finishes what runs, ends, and is replaced.",
    ),
    (
        "One of its handlers is stuck: it ignores that its time is up",
        "The same. The stuck job was fenced off before.",
    ),
    (
        "It crashes or is killed",
        "Its leases are reported lost at once, with the cause. The first time it is replaced at once, later after "
        f"growing pauses of up to {LONGEST_PAUSE[True]:g} s.",
    ),
    (
        "It ends before it is ready, or is not ready within `--start-timeout`",
        f"It is replaced after growing pauses of up to {LONGEST_PAUSE[False]:g} s. {GIVE_UP_AFTER} times in a "
        "row, in every place: the worker gives up and ends with 1. While the database is away, `--start-timeout` "
        "begins anew; and a process that was killed because the database had not let it begin is not counted.",
    ),
    (
        f"It gives no sign of life for {FROZEN_SECONDS:g} s and for two leases",
        "It is killed, and its leases are reported lost.",
    ),
    (
        f"It does not stop within `--shutdown-timeout` and {LAST_RESORT_SECONDS:g} s more",
        "It is killed, and its leases are given back.",
    ),
    (
        f"It is done, but does not end within {LEAVE_SECONDS:g} s, because a log handler of yours does not let it",
        "It is killed. It holds no lease any more, so nobody notices.",
    ),
    ("The supervisor itself is killed", "Its processes finish what runs within `--shutdown-timeout`, and end."),
)


def worker() -> str:
    """docs/reference/worker.md."""
    return page(
        "Worker",
        "docs/pages/worker.py and headgate_django/worker/options.py",
        "`python manage.py headgate_worker` runs jobs until it is asked to stop. It writes one line that contains "
        "`ready` when all its processes admit.",
        table(("Option", "Variable", "Default", "Meaning"), map(_option, OPTIONS)),
        'In settings the same options are keys of `HEADGATE["WORKER"]`: `--shutdown-timeout` is '
        '`HEADGATE["WORKER"]["SHUTDOWN_TIMEOUT"]`. A flag beats the variable, which beats the setting, which '
        "beats the default.",
        "## Signals",
        "Send them to the worker command itself, the *supervisor*. It tells its processes what to do.",
        table(("Signal", "Effect"), SIGNALS),
        "A signal to the whole process group or container does no harm: Ctrl-C in a terminal, or a service "
        "manager that signals everybody. A child that gets it directly stops admitting and leaves the rest to the "
        "supervisor; a process that runs one isolated job ignores it. A signal is noted from the first moment of "
        "the start, and obeyed also while the database does not answer. A handler of yours for one of these "
        "signals, or for `SIGCHLD`, that is set when your jobs are imported is replaced by the worker's.",
        "`SIGTERM` to one child alone: it finishes what runs and is replaced. With `--processes 0` there is no "
        "supervisor, and `SIGQUIT` and `SIGHUP` do what they do to any program.",
        "## Exit codes",
        table(("Code", "Meaning"), EXIT_CODES),
        "## Its processes",
        "The supervisor starts `--processes` children. Each enters the register of workers under an id of its "
        "own, `NAME/SLOT-xxxxxx`: the worker's name, the number of its place, and six digits that are new for "
        "each process. Jobs pinned to a worker with `sticky_worker=NAME` run in any of them.",
        table(("What happens to a child", "What follows"), CHILDREN),
        "Why it is made so: [How a worker is built](../explanation/worker-processes.md).",
    )


def _option(option: Option) -> tuple[str, ...]:
    flag = f"`{option.flag}`" + (f", `--no-{option.flag[2:]}`" if option.is_switch else "")
    default = str(option.default).lower() if option.is_switch else option.default
    return flag, f"`{option.variable}`", f"`{default}`" if default != "" else "", option.help
