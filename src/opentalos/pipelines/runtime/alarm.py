"""Alarms of a supervisor: to a hook of the user's, and to ``__metrics``."""

import json
import shlex
import socket
import subprocess
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.request import Request, urlopen

from opentalos.adapters.system_clock import SystemClock
from opentalos.model.errors import TalosError
from opentalos.model.names import METRICS_TOPIC
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime.connection import client_config
from opentalos.sdk import SimpleProducer
from opentalos.wire.metrics.measurement import Measurement, encode_measurement

SERVICE: Final = "pipelines"  # of the measurements
_STEP_MS: Final = 10_000
_HOOK_S: Final = 10.0
_PUT_S: Final = 5.0


class Alarm:
    """Tells others of a restart. What cannot be told in time is given up, with the reason.

    ``hook``: an http(s) URL that gets the alarm as JSON by POST, or a command that has it on stdin.
    """

    def __init__(self, settings: PipelineSettings, hook: str) -> None:
        self._settings, self._hook = settings, hook
        self._step_ms = 0
        self._counts: Counter[str] = Counter()

    def __call__(self, kind: str, fields: Mapping[str, Any]) -> list[str]:
        """Tell it; ``kind`` is restart or gave-up. Returns what went wrong with that."""
        document = json.dumps({"alarm": kind, "machine": socket.gethostname(), **fields})
        problems = []
        try:
            self._call_hook(document.encode())
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            problems.append(f"the alarm hook failed: {error}")
        try:
            self._measure(kind)
        except TalosError as error:
            problems.append(f"no measurement of the alarm: {error}")
        return problems

    def _call_hook(self, document: bytes) -> None:
        if not self._hook:
            return
        if self._hook.startswith(("http://", "https://")):
            headers = {"Content-Type": "application/json"}
            with urlopen(Request(self._hook, document, headers), timeout=_HOOK_S):
                return
        subprocess.run(shlex.split(self._hook), input=document, timeout=_HOOK_S, check=True)

    def _measure(self, kind: str) -> None:
        """A row of the step, as often as something happens in it: the last one has all of it."""
        now = SystemClock().wall_ms()
        step_ms = now - now % _STEP_MS + _STEP_MS
        if step_ms != self._step_ms:
            self._step_ms = step_ms
            self._counts.clear()
        self._counts[f"pipeline_{kind.replace('-', '_')}s"] += 1
        row = Measurement(
            at_ms=step_ms,
            step_ms=_STEP_MS,
            service=SERVICE,
            machine=socket.gethostname(),
            sums={name: float(count) for name, count in self._counts.items()},
        )
        config = client_config(self._settings, _PUT_S)
        with SimpleProducer(config, METRICS_TOPIC) as producer:
            producer.put([encode_measurement(row)])
