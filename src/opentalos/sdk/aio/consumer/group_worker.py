"""A worker of a consumer group: joins, rebalances, renews leases, fetches and commits.

Rebalancing is incremental: partitions that stay assigned are not interrupted.
"""

import asyncio
import inspect
import logging
import random
import secrets
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from opentalos.model.errors import (
    LeaseNotHeld,
    OutcomeUnknown,
    TalosError,
    TopicNotExist,
    Unavailable,
)
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.consumer.assigned_partition import AssignedPartition
from opentalos.sdk.aio.consumer.committer import Committer
from opentalos.sdk.aio.consumer.fetcher import Fetcher
from opentalos.sdk.aio.consumer.group_member import GroupMember
from opentalos.sdk.aio.consumer.group_watch import GroupWatch, Holdings
from opentalos.sdk.aio.consumer.start_positions import at_start, offsets_of
from opentalos.sdk.core.consumer.balance import balance
from opentalos.sdk.core.consumer.delivery import Delivery
from opentalos.sdk.core.consumer.settings import (
    Callbacks,
    ConsumerCounters,
    ConsumerSettings,
    PartitionCallback,
)
from opentalos.sdk.core.values import Position, TopicRef

_LOG = logging.getLogger("opentalos.sdk.consumer")
RETRY_S: Final = 1.0  # after a call failed with all its retries


class GroupWorker:
    """One worker of a group, from joining to leaving.

    Background tasks renew leases, rebalance, commit and watch the topic. An error in one of them
    ends the consumer: the next request for a record raises it.

    A partition (``AssignedPartition``) is locked, gets its start position, and is then fetched and
    delivered. Releasing it takes these steps, while its lease is renewed: stop delivery, wait for
    the application to finish the current delivery (at most ``revoke_wait_s``), ``on_revoked``,
    last commit, unlock. If the lease is lost, delivery stops at once, ``on_lost`` is called, and
    nothing is committed.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        ref: TopicRef,
        group: str,
        settings: ConsumerSettings,
        callbacks: Callbacks,
    ) -> None:
        worker = f"{settings.worker_prefix}{client.now_ms()}{secrets.token_hex(4)}"
        self.counters = ConsumerCounters()
        self.assigned: dict[int, AssignedPartition] = {}
        self.member = GroupMember(client, ref, group, worker)
        self._watch = GroupWatch(self.member, settings.check_workers_interval_s)
        self._joined = False
        self._client, self._topic, self._ref = client, topic, ref
        self._partitions = ref.consumer_partitions
        self._settings, self._callbacks = settings, callbacks
        self._committer = Committer(self.member, self.counters, self._refused)
        self._fetcher = Fetcher(client, ref, settings, self.counters, self._notify, self.fail)
        self._taking: set[int] = set()
        # A renewal that overtakes an unlock would lock the partition again; one that overtakes
        # the leaving would join again.
        self._leases = asyncio.Lock()
        self._seen: set[int] = set()
        self._changed = asyncio.Event()
        self._current: Delivery | None = None
        self._failure: BaseException | None = None
        self._callback_error: Exception | None = None  # raised by a callback during close
        self._tasks: set[asyncio.Task[None]] = set()
        self._releases: set[asyncio.Task[None]] = (
            set()
        )  # of these, the ones that release partitions
        self._renewed_s = 0.0
        self.closed = False

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group, get the first partitions. Raises: the error of the server."""
        self._renewed_s = asyncio.get_running_loop().time()
        await self.member.register()
        self._joined = True
        missing = await self._rebalance(await self._watch.look())
        settings = self._settings
        self._spawn(self._renewals(), "renew")
        self._spawn(self._rebalances(missing), "balance")
        self._spawn(self._topic_checks(), "topic")
        if settings.auto_commit:
            commits = self._committer.run(
                self.assigned, settings.commit_interval_s, settings.commit_records
            )
            self._spawn(commits, "commit")

    def fail(self, error: BaseException) -> None:
        """End the consumer: the next request for a record raises the first such error."""
        if self._failure is None and not self.closed:
            self._failure = error
        self._notify()

    async def close(self) -> None:
        """Stop delivery, commit, unlock, leave. Does not wait for the current delivery.

        Raises: the error of a callback, after everything else is done.
        """
        if self.closed:
            return
        self.closed = True
        self._notify()
        leaving = [held for held in self.assigned.values() if not held.leaving]
        for held in self.assigned.values():
            held.read_progress()
            held.discard_prefetched()
            held.idle.set()
        me = asyncio.current_task()
        await asyncio.gather(*(task for task in self._releases if task is not me))
        await self._hand_over(leaving)
        await self._leave()
        others = [task for task in self._tasks if task is not me]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._fetcher.close()
        if self._callback_error is not None:
            raise self._callback_error

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        async def root() -> None:
            try:
                await work
            except Exception as error:
                if not self.closed:
                    _LOG.exception("consumer task failed: task=%s", name)
                self.fail(error)

        task = asyncio.create_task(root(), name=f"consumer {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _notify(self) -> None:
        self._changed.set()

    # --- records ---------------------------------------------------------------------------------

    async def next_delivery(self, done: Delivery | None) -> Delivery | None:
        """Wait for the next delivery; None: the consumer is closed.

        If the caller is cancelled, the same delivery is returned again.

        Args:    done: the delivery that the application has finished.
        Raises:  the error that ended the consumer; PositionExpired: repeatedly, until a seek;
                 CorruptLog: once a minute, while nothing of other partitions can be delivered.
        """
        if done is not None and done is self._current:
            self._finish(done)
        await asyncio.sleep(0)  # let fetches, renewals and commits run
        while not self.closed:
            if self._failure is not None:
                raise self._failure
            if self._current is not None:
                if not self._current.is_cut:
                    return self._current
                self._finish(self._current)
            held = self._fetcher.next()
            if held is not None:
                self._current = held.deliver()
                self._fetcher.pump()
                return self._current
            self._changed.clear()
            await self._changed.wait()
        return None

    def _finish(self, done: Delivery) -> None:
        self._current = None
        handed = done.handed
        if handed is not None:
            self.counters.records += handed - done.chunk.first_offset + 1
        held = self.assigned.get(done.chunk.partition)
        if held is not None:
            self._fetcher.finish(held, done)
            if held.uncommitted >= self._settings.commit_records:
                self._committer.wake()

    def of(self, partition: int) -> AssignedPartition:
        """An assigned partition. Raises: LeaseNotHeld."""
        held = self.assigned.get(partition)
        if held is None:
            raise LeaseNotHeld(f"partition {partition} is not assigned to this consumer")
        return held

    async def seek(self, partition: int, position: Position) -> None:
        """Continue at a position; the current delivery no longer counts."""
        self.of(partition)
        offset = (await offsets_of(self._client, self._ref, {partition: position}))[partition]
        self._fetcher.seek(self.of(partition), offset)

    def pause(self, partitions: Iterable[int], paused: bool) -> None:
        """Pause or resume delivery from partitions."""
        for partition in partitions:
            self.of(partition).paused = paused
        self._fetcher.pump()
        self._notify()

    async def commit(self, offsets: Mapping[int, int] | None) -> None:
        """Commit these, or all delivered offsets. Raises: the first error, after all commits."""
        if offsets is None:
            for held in self.assigned.values():
                held.read_progress()
            offsets = {
                p: held.handed for p, held in self.assigned.items() if held.handed >= held.floor
            }
        held_offsets = [(self.of(partition), offset) for partition, offset in offsets.items()]
        for held, offset in held_offsets:
            held.check_commit(offset)
        outcomes = await asyncio.gather(
            *(self._committer.commit(held, offset) for held, offset in held_offsets),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    # --- rebalancing -----------------------------------------------------------------------------

    async def _rebalances(self, missing: int) -> None:
        """Rebalance when the group changes, and more often while partitions are missing."""
        while True:
            try:
                missing = await self._rebalance(await self._watch.next(missing))
            except (Unavailable, OutcomeUnknown) as error:
                _LOG.warning("rebalance failed: %s", error)
                missing = 1

    async def _rebalance(self, holdings: Holdings) -> int:
        """Rebalance once. Returns: how many partitions are still missing."""
        if self.member.worker not in holdings:
            _LOG.warning(
                "this worker is no longer in the group; if this repeats, the server's leases are "
                "shorter than lease_s=%g: lower lease_s and renew_interval_s",
                self._settings.lease_s,
            )
        mine = [partition for partition, held in self.assigned.items() if not held.leaving]
        leaving = [partition for partition, held in self.assigned.items() if held.leaving]
        move = balance(self.member.worker, holdings, mine, leaving, self._partitions, random.sample)
        if move.release:
            self._revoke([self.assigned[partition] for partition in move.release])
        await self._unlock(move.stray)
        taken = await self._take(move.take) if move.take else 0
        return move.missing + len(move.take) - taken

    async def _take(self, partitions: Sequence[int]) -> int:
        """Lock partitions, resolve their start positions, start fetching. Returns: how many."""
        async with self._leases:
            if not self._joined:
                return 0  # a lock would join the group again
            locked = await self.member.lock(partitions)
            self._taking.update(locked)
        try:
            checkpoints = await self.member.checkpoints(locked)
            found = await at_start(self._client, self._ref, self._settings, checkpoints, self._seen)
        except BaseException:
            self._spawn(self._unlock(locked), "unlock")
            raise
        finally:
            lost = set(locked) - self._taking
            self._taking.difference_update(locked)
        ours = [held for held in found if held.partition not in lost]
        if self.closed or not ours:
            await self._unlock([held.partition for held in ours])
            return 0
        for held in ours:
            self.assigned[held.partition] = held
            self._seen.add(held.partition)
        self.counters.partitions_taken += len(ours)
        await self._call(self._callbacks.on_assigned, ours)
        for held in ours:
            if self.assigned.get(held.partition) is held and not held.leaving:
                self._fetcher.add(held)
        return len(ours)

    def _revoke(self, partitions: Sequence[AssignedPartition]) -> None:
        """Release idle partitions at once, the others when their delivery is finished."""
        for held in partitions:
            held.leaving = True
            self._fetcher.drop(held)
        busy = [held for held in partitions if held.delivery is not None]
        for group in ([held for held in partitions if held not in busy], busy):
            if group:
                task = self._spawn(self._release(group), "release")
                self._releases.add(task)
                task.add_done_callback(self._releases.discard)

    async def _release(self, partitions: Sequence[AssignedPartition]) -> None:
        """Call ``on_revoked``, commit, unlock, in this order. Leases are renewed meanwhile."""
        ours = await self._hand_over(partitions)
        await self._unlock((), ours)
        self.counters.partitions_revoked += len(ours)

    async def _hand_over(
        self, partitions: Sequence[AssignedPartition]
    ) -> Sequence[AssignedPartition]:
        """All but the unlock. Returns: those of the partitions that are still held."""
        for held in partitions:
            held.leaving = True
            self._fetcher.drop(held)
        try:
            async with asyncio.timeout(self._settings.revoke_wait_s):
                for held in partitions:
                    await held.idle.wait() if held.delivery is not None else None
        except TimeoutError:
            _LOG.warning(
                "partitions released before their records were processed; they are redelivered"
            )
        ours = [held for held in partitions if not held.lost]
        await self._call(self._callbacks.on_revoked, ours)
        if self._settings.auto_commit:
            await self._committer.commit_processed([held for held in ours if not held.lost])
        return [held for held in ours if not held.lost]

    async def _unlock(
        self, partitions: Sequence[int], leaving: Sequence[AssignedPartition] = ()
    ) -> None:
        """Unlock partitions, and those ``leaving``."""
        if not partitions and not leaving:
            return
        async with self._leases:
            ours = [held for held in leaving if self.assigned.get(held.partition) is held]
            for held in ours:
                del self.assigned[held.partition]
            given = [*partitions, *(held.partition for held in ours)]
            if not given:
                return
            try:
                await self.member.unlock(given)
            except TalosError as error:
                _LOG.warning("unlock failed, the leases will expire: %s", error)

    async def _leave(self) -> None:
        """Unlock what is left and leave the group, so that others take over at once."""
        async with self._leases:
            left = [*self.assigned, *self._taking]
            self.counters.partitions_revoked += len(self.assigned)
            self.assigned.clear()
            joined, self._joined = self._joined, False
            if not joined:
                return
            try:
                await self.member.leave(left)
            except TalosError as error:
                _LOG.warning("could not leave the group, its leases will expire: %s", error)

    def lose(self, partitions: Iterable[int]) -> None:
        """The leases lapsed or were refused: give the partitions up in the background."""
        self._spawn(self._lose(partitions), "lost")

    async def _lose(self, partitions: Iterable[int]) -> None:
        """Another worker may own them: stop at once, commit nothing."""
        gone = [
            self.assigned.pop(partition) for partition in partitions if partition in self.assigned
        ]
        for held in gone:
            held.lost = held.leaving = True
            self._fetcher.drop(held)
            held.release_delivery()
        if gone:
            self.counters.partitions_lost += len(gone)
            _LOG.warning("leases lost: partitions=%s", [held.partition for held in gone])
            await self._call(self._callbacks.on_lost, gone)
            self._watch.hurry()

    def _refused(self, held: AssignedPartition) -> None:
        """The server rejected a commit."""
        held.lost = True
        self.lose([held.partition])

    async def _call(
        self, callback: PartitionCallback | None, partitions: Sequence[AssignedPartition]
    ) -> None:
        if callback is None or not partitions:
            return
        try:
            answer = callback(sorted(held.partition for held in partitions))
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            if self.closed:
                self._callback_error = error
            self.fail(error)

    # --- leases and the topic ------------------------------------------------------------------

    async def _renewals(self) -> None:
        loop, settings = asyncio.get_running_loop(), self._settings
        pause_s = settings.renew_interval_s
        while True:
            await asyncio.sleep(pause_s)
            began_s, lapses_s = loop.time(), self._renewed_s + settings.lease_s
            allowed_s = max(RETRY_S, min(settings.renew_interval_s, lapses_s - began_s))
            listed: list[int] = []
            try:
                async with self._leases:
                    if not self._joined:
                        return
                    listed = [*self.assigned, *self._taking]
                    alive, lost = await self.member.renew(listed, allowed_s)
            except (Unavailable, OutcomeUnknown) as error:
                _LOG.warning("lease renewal failed: %s", error)
                if loop.time() >= lapses_s:
                    self.lose(listed)
                pause_s = min(RETRY_S, settings.renew_interval_s)
                continue
            self._renewed_s, pause_s = began_s, settings.renew_interval_s
            gone = lost if alive else listed
            self._taking.difference_update(gone)
            if gone:
                self._spawn(self._lose(gone), "lost")

    async def _topic_checks(self) -> None:
        """Raises: TopicNotExist: it was deleted, or deleted and recreated."""
        while True:
            await asyncio.sleep(self._settings.check_partitions_interval_s)
            try:
                found = await self._client.topic(self._topic, refresh=True)
            except (Unavailable, OutcomeUnknown) as error:
                _LOG.warning("topic lookup failed: %s", error)
                continue
            if found.resource != self._ref.resource:
                raise TopicNotExist(
                    f"topic {self._ref.name} was deleted and recreated; start a new consumer"
                )
            if found.consumer_partitions != self._partitions:
                self._partitions = found.consumer_partitions
                self._watch.hurry()
