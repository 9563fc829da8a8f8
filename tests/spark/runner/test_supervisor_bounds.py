"""What a supervisor does, with runs that are small programs instead of Spark."""

import json
import sys
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime.alarm import Alarm
from opentalos.pipelines.runtime.run_lock import RunLock
from opentalos.pipelines.runtime.run_plan import Event, PipelineFailed
from opentalos.pipelines.runtime.supervised_child import LifeSigns
from opentalos.pipelines.runtime.supervisor import Supervision, Supervisor

NOBODY = PipelineSettings(url="http://127.0.0.1:9", key="A:secret-of-nobody", home=Path("unused"))
BEATS = """
import os, time
from pathlib import Path
from opentalos.pipelines.runtime.progress import Beat
Beat(os.getpid(), 1, "running").write(Path({home!r}), "archive")
time.sleep(60)
"""
FAILS_ONCE = """
from pathlib import Path
flag = Path({flag!r})
again = flag.exists()
flag.touch()
raise SystemExit(not again)
"""


class Said(list[Event]):
    def __call__(self, event: Event) -> None:
        self.append(event)

    def texts(self, kind: str) -> list[str]:
        return [event.text for event in self if event.kind == kind]


def supervised(
    home: Path,
    code: str,
    *,
    hook: str = "",
    restarts_max: int = 2,
    start_s: float = 180.0,
    calm_s: float = 300.0,
) -> Said:
    said = Said()
    supervision = Supervision(
        home=home,
        names=("archive",),
        argv=(sys.executable, "-c", code),
        signs=LifeSigns(start_s=start_s, stall_s=0.5),
        restarts_max=restarts_max,
        calm_s=calm_s,
        backoff_s=0.01,
    )
    Supervisor(supervision, Alarm(NOBODY, hook), said).run()
    return said


def test_it_gives_up_after_its_restarts_and_says_so(tmp_path: Path) -> None:
    hook = tmp_path / "alarms"
    with pytest.raises(
        PipelineFailed, match="gave up after 2 restarts: the run exited with status 3"
    ):
        supervised(tmp_path, "raise SystemExit(3)", hook=f"tee -a {hook}")
    alarms = [json.loads(text) for text in hook.read_text().replace("}{", "}\n{").splitlines()]
    assert [item["alarm"] for item in alarms] == ["restart", "restart", "gave-up"]


def test_a_run_that_succeeds_ends_the_supervision(tmp_path: Path) -> None:
    assert not supervised(tmp_path, "pass").texts("restart")


def test_a_run_without_progress_is_ended(tmp_path: Path) -> None:
    with pytest.raises(PipelineFailed, match=r"archive \(running\) made no progress"):
        supervised(tmp_path, BEATS.format(home=str(tmp_path)), restarts_max=0)


def test_hangs_count_although_it_takes_longer_to_notice_them_than_a_calm_run(
    tmp_path: Path,
) -> None:
    with pytest.raises(PipelineFailed, match=r"gave up after 1 restarts: archive .starting. made"):
        supervised(tmp_path, "import time; time.sleep(60)", restarts_max=1, start_s=0.5, calm_s=0.1)


def test_a_hook_that_fails_does_not_end_the_supervision(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    code = (
        f"from pathlib import Path; p = Path({str(flag)!r}); e = p.exists(); p.touch(); exit(not e)"
    )
    said = supervised(tmp_path, code, hook="false")
    assert len(said.texts("restart")) == 1
    assert any("alarm hook failed" in text for text in said.texts("note"))


def test_a_run_by_hand_is_left_alone(tmp_path: Path) -> None:
    by_hand = RunLock(tmp_path, "archive")
    by_hand.take()
    with pytest.raises(ConfigError, match=r"already running without a supervisor \(pid"):
        supervised(tmp_path, "pass")
    by_hand.release()
