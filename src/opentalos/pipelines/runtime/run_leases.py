"""The leases of a run: one per pipeline and home, which at most one run of all hosts has."""

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from opentalos.adapters.polling_threads import PollingThreads
from opentalos.model.errors import (
    ConfigError,
    LeaseHeld,
    LeaseNotHeld,
    OutcomeUnknown,
    TalosError,
    Unavailable,
)
from opentalos.pipelines.lease import HeldLease
from opentalos.pipelines.runtime.connection import client_config
from opentalos.pipelines.runtime.home_id import LeaseNote, lease_name
from opentalos.pipelines.runtime.run_plan import Event, PipelineFailed, RunPlan, Say
from opentalos.sdk.rest_client import RestClient

_POLL_S: Final = 0.2  # between two looks at the clock
_ASK_S: Final = 1.0  # between two requests for a lease of another run
_CALL_PART: Final = 1 / 6  # of the ttl, for one call
_CALL_S_MAX: Final = 5.0
_WAIT_PART: Final = 1.5  # of the ttl: how long a run without a supervisor waits for a lease
_EXIT_S: Final = 30.0  # for a run to end after it lost a lease; then its process exits
_JOIN_S: Final = 10.0  # for the threads to end
_HOLDER_BYTES: Final = 6
_EXIT_STATUS: Final = 1

Pause = Callable[[], None]  # rests for a moment; may raise to end the wait


class RunLeases:
    """Takes leases, renews them, and reports the first one that is lost.

    Theory of operation. ``take`` waits for a lease and returns its epoch. From the first one on,
    one thread renews all of them at a third of their ttl, and another, which never does I/O,
    watches the clock. A lease is lost when a renewal is refused, or when none succeeded until
    shortly before another run may have it: then ``lost`` has the reason and ``on_lost`` is called,
    once, by the thread that watches. If the process does not end by itself within ``_EXIT_S``, it
    exits. ``release`` ends all that, and frees the leases.

    A process that is stopped notices nothing. What it writes later carries its epoch, by which the
    tables of the lake refuse it.
    """

    def __init__(self, plan: RunPlan, say: Say, on_lost: Callable[[], None]) -> None:
        settings = plan.settings
        call_s = min(_CALL_S_MAX, plan.lease_s * _CALL_PART)
        self._rest = RestClient(client_config(settings, call_s), call_s)
        self._plan, self._say, self._on_lost = plan, say, on_lost
        self._home = settings.home
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(_HOLDER_BYTES)}"
        self._held: dict[str, HeldLease] = {}  # by the lease's name
        self._threads = PollingThreads(_POLL_S)
        self._refused = ""  # why a renewal was
        self.lost = ""

    def take(self, pipeline: str, pause: Pause) -> int:
        """Wait for the lease of a pipeline, and return its epoch. ``pause`` is called meanwhile.

        Raises: ConfigError: another run has it, and this one has no supervisor, so that it does
                not wait longer than a dead one would need; PipelineFailed: the server is
                unavailable for too long; RequestError: the key may not hold leases.
        """
        name = lease_name(pipeline, self._home)
        note = LeaseNote.read(self._home, pipeline)
        if note is not None and note.ended:
            self._free(name, note.epoch)
        held = self._wait(name, pipeline, note.epoch if note is not None else 0, pause)
        LeaseNote.of_this_process(held.epoch).write(self._home, pipeline)
        if not self._held:
            self._threads.start(renew_leases=self._renew_all, watch_leases=self._watch)
        self._held[name] = held
        return held.epoch

    def release(self) -> None:
        """Free the leases, so that another run need not wait until they expire."""
        self._threads.end(_JOIN_S)
        for held in () if self.lost else self._held.values():
            self._free(held.name, held.epoch)

    def _wait(self, name: str, pipeline: str, seen: int, pause: Pause) -> HeldLease:
        began_s = time.monotonic()
        reachable_s, asked_s, noted = began_s, float("-inf"), False
        while True:
            now_s = time.monotonic()
            if now_s - asked_s < _ASK_S:
                pause()
                continue
            asked_s = now_s
            try:
                granted = self._put(name, seen=seen)
                return HeldLease(name, int(granted["epoch"]), self._plan.lease_s, asked_s)
            except LeaseHeld as error:
                reachable_s = now_s
                if not self._plan.supervised and now_s - began_s > self._patience_s:
                    raise ConfigError(f"{pipeline} is already running: {error}") from error
                if not noted:
                    self._say(Event("note", f"standby: {pipeline} waits for its lease: {error}"))
                    noted = True
            except (Unavailable, OutcomeUnknown) as error:
                if now_s - reachable_s > self._plan.outage_s:
                    raise PipelineFailed(f"could not take lease {name}: {error}") from error

    @property
    def _patience_s(self) -> float:
        return self._plan.lease_s * _WAIT_PART

    def _renew_all(self) -> None:
        for held in list(self._held.values()):
            now_s = time.monotonic()
            if self._refused or not held.is_due(now_s):
                continue
            try:
                self._put(held.name, epoch=held.epoch)
            except LeaseNotHeld as error:
                self._refused = str(error)
            except TalosError:
                continue  # again at the next look, until the other thread ends it
            else:
                self._held[held.name] = held.renewed(now_s)

    def _watch(self) -> None:
        reason, now_s = self._refused, time.monotonic()
        for held in list(self._held.values()):
            if not reason and held.must_stop(now_s):
                silent_s = now_s - held.asked_s
                reason = f"lease {held.name} could not be renewed for {silent_s:.0f} s"
        if not reason:
            return
        self.lost = f"stopped, since another run may have taken over: {reason}"
        self._say(Event("note", self.lost))
        self._on_lost()
        if not self._threads.ended_within(_EXIT_S):
            os._exit(_EXIT_STATUS)  # the main thread hangs

    def _put(self, name: str, **more: int) -> Any:
        ttl_ms = int(self._plan.lease_s * 1000)
        document = {"holder": self._holder, "ttl_ms": ttl_ms, **more}
        return self._rest("PUT", f"leases/{name}", document)

    def _free(self, name: str, epoch: int) -> None:
        """Another run gets the lease now or when it expires; errors only cost time."""
        with suppress(TalosError):
            self._rest("DELETE", f"leases/{name}", query={"epoch": epoch})
