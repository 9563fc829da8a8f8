"""Runs pipelines in one Spark session until they end, one of them fails, or a signal stops them."""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

import psutil

from opentalos.adapters.java_home import find_java
from opentalos.model.errors import TalosError
from opentalos.pipelines.pipeline import BatchPipeline, Pipeline, StreamPipeline
from opentalos.pipelines.runtime.causes import cause_of
from opentalos.pipelines.runtime.connection import outage_reason
from opentalos.pipelines.runtime.progress import STARTING, WAITING
from opentalos.pipelines.runtime.run_leases import RunLeases
from opentalos.pipelines.runtime.run_lock import RunLock
from opentalos.pipelines.runtime.run_plan import Event, PipelineFailed, RunPlan, Say
from opentalos.pipelines.runtime.runs import BatchRun, Run, StreamRun
from opentalos.pipelines.session import is_submitted, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.2  # between two polls of the pipelines
_STOP_GRACE_S = 5.0  # for the batch in progress, after a signal


class _Stopped(BaseException):
    """A signal arrived during a call that cannot be interrupted otherwise."""


class Runner:
    """One run.

    Theory of operation. ``run`` takes the lock of every pipeline, waits for the server, takes the
    lease of every pipeline, by which hosts with the same home agree who runs it, opens one Spark
    session, and then polls each ``Run`` in turn from one thread: a stream is started and
    watched, a batch pipeline runs to its end within its poll. SIGTERM and SIGINT set ``_stopping``,
    which ends the loop between two batches; while a blocking call of Spark is in progress they
    raise ``_Stopped`` instead. A failure that may pass makes its run wait; any other failure stops
    all of them. Checkpoints make a new run continue where this one stopped.
    """

    def __init__(self, plan: RunPlan, say: Say) -> None:
        self._plan, self._say = plan, say
        self._stopping = False
        self._raises = False  # a signal interrupts what is under way
        self._leases: RunLeases | None = None
        self._java: psutil.Process | None = None

    def run(self) -> None:
        """Run until all pipelines end or a signal arrives.

        Raises: ConfigError: nothing was started. PipelineFailed: one pipeline failed with that
                cause, and the others were stopped; a new run continues at the checkpoints.
        """
        pipelines = self._plan.load()
        if not is_submitted():
            find_java()  # before the wait for a server
        with ExitStack() as stack:
            locks = [RunLock(self._plan.settings.home, name) for name in pipelines]
            for lock in locks:
                lock.take(supervised=self._plan.supervised)
                stack.callback(lock.release)
            stack.enter_context(self._signals())
            runs = [self._run_of(pipeline) for pipeline in pipelines.values()]
            try:
                self._wait_for_server(runs)
                self._take_leases(stack, runs)
                spark = self._session(stack, locks, runs)
                self._loop(spark, runs)
            except _Stopped:
                self._note("stopped")
            except Exception as error:  # for example because its Java process was killed
                if self._leases is not None and self._leases.lost:
                    raise PipelineFailed(self._leases.lost) from error
                if isinstance(error, TalosError):
                    raise
                raise PipelineFailed(f"the Spark session failed: {cause_of(error)}") from error

    def _take_leases(self, stack: ExitStack, runs: list[Run]) -> None:
        """In one order, to avoid a deadlock of two runs. They are freed after the session ended."""
        leases = self._leases = RunLeases(self._plan, self._say, self._kill_java)
        stack.callback(leases.release)

        def pause() -> None:
            for run in runs:
                run.beat(WAITING)
            self._check_leases()
            self._rest()

        for run in sorted(runs, key=lambda run: run.name):
            run.epoch = leases.take(run.name, pause)

    def _check_leases(self) -> None:
        if self._leases is not None and self._leases.lost:
            raise PipelineFailed(self._leases.lost)

    def _kill_java(self) -> None:
        """So that nothing of this run writes any more; called by a thread of the leases."""
        with suppress(psutil.NoSuchProcess):
            if self._java is not None:
                self._java.kill()

    def _run_of(self, pipeline: Pipeline) -> Run:
        if isinstance(pipeline, StreamPipeline):
            return StreamRun(pipeline, self._plan, self._say, self._outage_reason)
        assert isinstance(pipeline, BatchPipeline)
        return BatchRun(pipeline, self._plan, self._say, self._outage_reason)

    def _session(self, stack: ExitStack, locks: list[RunLock], runs: list[Run]) -> "SparkSession":
        for run in runs:
            run.beat(STARTING)
        with self._interruptible():
            plan = self._plan
            spark = open_session("talos pipeline", master=plan.master, conf=plan.conf)
        stack.callback(self._end, spark)
        self._listen()  # Spark has installed its own handler of SIGINT
        machine = spark.sparkContext._jvm
        assert machine is not None
        java = machine.java.lang.ProcessHandle.current().pid()
        self._java = psutil.Process(java)
        for lock in locks:
            lock.note_java(java)
        self._check_leases()  # one that was lost before found no Java to kill
        if page := spark.sparkContext.uiWebUrl:
            self._note(f"Spark UI: {page}")
        return spark

    def _loop(self, spark: "SparkSession", runs: list[Run]) -> None:
        try:
            while left := [run for run in runs if not run.ended]:
                self._check_leases()
                for run in left:
                    with self._interruptible():
                        run.poll(spark)
                self._rest()
        finally:
            self._stop(runs)

    def _stop(self, runs: list[Run]) -> None:
        """A stream that does not stop in time ends with the session."""
        wait_until = time.monotonic() + _STOP_GRACE_S
        for run in runs:
            try:
                run.stop(wait_until)
            except Exception as error:
                self._note(f"{run.name} did not stop cleanly: {cause_of(error)}")

    def _end(self, spark: "SparkSession") -> None:
        """Ignore errors: a session whose Java process is gone cannot stop cleanly."""
        with suppress(Exception):
            spark.stop()

    def _wait_for_server(self, runs: list[Run]) -> None:
        deadline = time.monotonic() + self._plan.outage_s
        noted = False
        while reason := self._outage_reason():
            if not noted:
                limit_s = self._plan.outage_s
                self._note(f"waiting up to {limit_s:.0f} s for the server: {reason}")
                noted = True
            for run in runs:
                run.beat(WAITING)
            if time.monotonic() > deadline:
                raise PipelineFailed(f"the server is unavailable: {reason}")
            self._rest()

    def _rest(self) -> None:
        if self._stopping or self._orphaned():
            raise _Stopped
        time.sleep(_POLL_S)

    def _outage_reason(self) -> str:
        return outage_reason(self._plan.settings)

    def _orphaned(self) -> bool:
        """Whether this is a supervised run whose supervisor has exited."""
        if not self._plan.supervised:
            return False
        stdin = sys.stdin.fileno()
        readable, _, _ = select.select([stdin], [], [], 0)
        return bool(readable) and not os.read(stdin, 1)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        self._listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        if self._raises:
            self._raises = False
            raise _Stopped

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        if self._stopping:
            raise _Stopped
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def _note(self, text: str) -> None:
        self._say(Event("note", text))
