"""A plugin (``-p tests.results``) that writes a line per finished test to the file named by
OPENTALOS_RESULTS, for scripts/run_lanes.py.

A crash of the process loses none that finished. ``wait_ended`` is set only if nothing else was
wrong: the test failed because something that it waited for did not come, and no server that it
started printed a traceback or ended by itself.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server_process import troubles
from tests.waiting import WaitEnded

WAIT_ENDED = "wait_ended"
SHOWN_CHARACTERS = 300


def only_waited(error: BaseException) -> bool:
    """Whether it says no more than that something did not come in time."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(only_waited, error.exceptions))
    browser = sys.modules.get("playwright.sync_api")
    slow = (WaitEnded, subprocess.TimeoutExpired, *((browser.TimeoutError,) if browser else ()))
    return isinstance(error, slow)


def pytest_configure(config: pytest.Config) -> None:
    wanted = os.environ.pop("OPENTALOS_RESULTS", None)  # not for a pytest that a test starts
    if wanted:
        config.pluginmanager.register(Results(Path(wanted)))


class Results:
    """Collects the phases of a test, and writes it down when it is finished."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, set[str]] = {}
        self._seconds: dict[str, float] = {}
        self._waits: dict[str, list[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report: Any = yield
        if report.failed and call.excinfo is not None and only_waited(call.excinfo.value):
            found = troubles()
            if found:
                report.sections.append(("servers in trouble", "\n".join(found)))
            else:
                setattr(report, WAIT_ENDED, str(call.excinfo.value)[:SHOWN_CHARACTERS])
        return report  # type: ignore[no-any-return]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._outcomes.setdefault(name, set()).add(report.outcome)
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if report.failed:
            self._waits.setdefault(name, []).append(getattr(report, WAIT_ENDED, ""))
        if report.when == "teardown":
            self._finish(name)

    def _finish(self, name: str) -> None:
        outcomes, waits = self._outcomes.pop(name), self._waits.pop(name, [])
        worst = next(kind for kind in ("failed", "skipped", "passed") if kind in outcomes)
        line: dict[str, Any] = {"test": name, "outcome": worst}
        line["seconds"] = round(self._seconds.pop(name), 3)
        if waits and all(waits):
            line[WAIT_ENDED] = waits[0]
        self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """The processor time of this process and of those that it started and that have ended."""
        for name in list(self._outcomes):  # interrupted in the middle of a test
            self._finish(name)
        self._write({"processor_s": round(sum(os.times()[:4]), 1)})
