"""One pipeline within a run: a stream that is watched, or a batch pipeline that is repeated.

``runner`` polls each of them. Every second it leaves a heartbeat for the supervisor, unless a batch
or a call of Spark hangs.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from opentalos.pipelines.pipeline import BatchPipeline, Pipeline, PipelineSettings, StreamPipeline
from opentalos.pipelines.runtime.causes import Cause, cause_of
from opentalos.pipelines.runtime.progress import (
    ENDED,
    IN_A_RUN,
    RUNNING,
    STARTING,
    WAITING,
    Beat,
    progress_of,
)
from opentalos.pipelines.runtime.run_plan import Event, PipelineFailed, RunPlan, Say
from opentalos.pipelines.session import set_epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_BEAT_S = 1.0
_POLL_S = 0.05  # for the end of a batch
_RETRY_S = 1.0  # between two probes of an unavailable server
OutageReason = Callable[[], str]  # why the server is unavailable now; empty if it is available


class Run(ABC):
    """A pipeline of this process, which is starting, running, waiting or ended.

    After a failure that may pass it waits until the server is available and starts again, for up to
    ``outage_s``; any other failure is raised. Only a finished batch or run resets that time.
    """

    def __init__(
        self, pipeline: Pipeline, plan: RunPlan, say: Say, outage_reason: OutageReason
    ) -> None:
        self.name = pipeline.name
        self.settings: PipelineSettings = plan.settings_of(pipeline.name)
        self.epoch = 0  # of the pipeline's lease
        self.ended = False
        self._outage_s, self._say, self._outage_reason = plan.outage_s, say, outage_reason
        self._down_since: float | None = None
        self._retry_at = 0.0
        self._beats = 0
        self._state = ""
        self._beat_at = 0.0

    @abstractmethod
    def poll(self, spark: "SparkSession") -> None:
        """Start what is due and report what happened. Raises: PipelineFailed."""

    @abstractmethod
    def stop(self, wait_until: float) -> None:
        """Stop between two batches, or within one at the monotonic time ``wait_until``."""

    def beat(self, state: str) -> None:
        """Write a heartbeat: at most one a second, and one at each change of the state."""
        now = time.monotonic()
        if now - self._beat_at >= _BEAT_S or state != self._state:
            self._state = state
            self._beats, self._beat_at = self._beats + 1, now
            Beat(os.getpid(), self._beats, state).write(self.settings.home, self.name)

    def _failed(self, error: BaseException) -> None:
        cause = cause_of(error)
        if not cause.passing:
            raise PipelineFailed(f"{self.name} failed: {cause}") from error
        self._wait(cause)

    def _wait(self, cause: Cause) -> None:
        now = time.monotonic()
        if self._down_since is None:
            self._down_since = now
            text = f"{self.name} waits up to {self._outage_s:.0f} s: {cause}"
            self._say(Event("note", text, {"pipeline": self.name, "cause": str(cause)}))
        if now - self._down_since > self._outage_s:
            waited_s = now - self._down_since
            raise PipelineFailed(f"{self.name} failed after {waited_s:.0f} s of waiting: {cause}")
        self._retry_at = now + _RETRY_S

    def _may_start(self) -> bool:
        """Whether the server is available, after a failure; always before one."""
        if self._down_since is None:
            return True
        self.beat(WAITING)
        if time.monotonic() < self._retry_at:
            return False
        reason = self._outage_reason()
        if reason:
            self._wait(Cause("Unavailable", reason))
        return not reason

    def _progressed(self) -> None:
        self._down_since = None

    def _end(self) -> None:
        self.ended = True
        self.beat(ENDED)


class StreamRun(Run):
    """A streaming query. It counts as alive while it finishes batches or waits for its trigger."""

    def __init__(
        self, pipeline: StreamPipeline, plan: RunPlan, say: Say, outage_reason: OutageReason
    ) -> None:
        super().__init__(pipeline, plan, say, outage_reason)
        self._pipeline = pipeline
        self._query: StreamingQuery | None = None
        self._last = ("", -1)  # start time and number of the last reported batch

    def poll(self, spark: "SparkSession") -> None:
        if self._query is None:
            if self._may_start():
                self._start(spark)
            return
        active = self._query.isActive
        self._report()
        if active:
            status = self._query.status
            idle = not status["isTriggerActive"] and "Initializing" not in status["message"]
            if idle:
                self.beat(RUNNING)
            return
        error, self._query = self._query.exception(), None
        if error is not None:
            self._failed(error)
        else:
            self._end()

    def stop(self, wait_until: float) -> None:
        query, self._query = self._query, None
        if query is None:
            return
        while query.isActive and query.status["isTriggerActive"]:
            if time.monotonic() > wait_until:
                break
            time.sleep(_POLL_S)
        query.stop()

    def _start(self, spark: "SparkSession") -> None:
        self.beat(STARTING)
        try:
            set_epoch(spark, self.epoch)
            self._query = self._pipeline.start(spark, self.settings)
        except Exception as error:
            self._failed(error)

    def _report(self) -> None:
        assert self._query is not None
        report = self._query.lastProgress
        if report is None:
            return
        progress = progress_of(self.name, report)
        if (progress.at, progress.batch) == self._last:
            return
        self._last = progress.at, progress.batch
        self._progressed()
        self.beat(RUNNING)
        if progress.rows or progress.lag:
            self._say(Event("progress", str(progress), asdict(progress)))


class BatchRun(Run):
    """A pipeline that runs to its end, once or repeatedly."""

    def __init__(
        self, pipeline: BatchPipeline, plan: RunPlan, say: Say, outage_reason: OutageReason
    ) -> None:
        super().__init__(pipeline, plan, say, outage_reason)
        self._pipeline, self._every_s = pipeline, plan.every_s
        self._due_at = time.monotonic()
        self._runs = 0

    def poll(self, spark: "SparkSession") -> None:
        if time.monotonic() < self._due_at:
            self.beat(RUNNING)
            return
        if not self._may_start():
            return
        began = time.monotonic()
        self.beat(IN_A_RUN)
        try:
            set_epoch(spark, self.epoch)
            self._pipeline.run(spark, self.settings)
        except Exception as error:
            self._failed(error)
            return
        self._progressed()
        self._runs += 1
        took_s = round(time.monotonic() - began, 1)
        fields = {"pipeline": self.name, "run": self._runs, "took_s": took_s}
        self._say(Event("progress", f"{self.name}  run {self._runs}  {took_s} s", fields))
        if self._every_s is None:
            self._end()
        else:
            self._due_at = max(began + self._every_s, time.monotonic())

    def stop(self, wait_until: float) -> None:
        """Nothing runs between two polls."""
