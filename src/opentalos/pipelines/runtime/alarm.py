"""Alarms of a supervisor: sent to the user's hook and published to ``__metrics``."""

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
_INTERVAL_MS: Final = 10_000
_HOOK_S: Final = 10.0
_PUT_S: Final = 5.0


class Alarm:
    """Reports a restart. A report that fails or takes too long is abandoned, with its reason.

    ``hook``: an http(s) URL that receives the alarm as JSON by POST, or a command that receives it
    on stdin.
    """

    def __init__(self, settings: PipelineSettings, hook: str) -> None:
        self._settings, self._hook = settings, hook
        self._interval_ms = 0
        self._counts: Counter[str] = Counter()

    def __call__(self, kind: str, fields: Mapping[str, Any]) -> list[str]:
        """Report an alarm; ``kind`` is restart or gave-up. Returns the failures of doing so."""
        document = json.dumps({"alarm": kind, "machine": socket.gethostname(), **fields})
        problems = []
        try:
            self._call_hook(document.encode())
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            problems.append(f"alarm hook failed: {error}")
        try:
            self._measure(kind)
        except TalosError as error:
            problems.append(f"could not publish the alarm to {METRICS_TOPIC}: {error}")
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
        """Publish the counts of this interval; the last row of an interval has all of them."""
        now = SystemClock().wall_ms()
        end_ms = now - now % _INTERVAL_MS + _INTERVAL_MS
        if end_ms != self._interval_ms:
            self._interval_ms = end_ms
            self._counts.clear()
        self._counts[f"pipeline_{kind.replace('-', '_')}s"] += 1
        row = Measurement(
            at_ms=end_ms,
            step_ms=_INTERVAL_MS,
            service=SERVICE,
            machine=socket.gethostname(),
            sums={name: float(count) for name, count in self._counts.items()},
        )
        config = client_config(self._settings, _PUT_S)
        with SimpleProducer(config, METRICS_TOPIC) as producer:
            producer.put([encode_measurement(row)])
