"""GroupMemberService: workers without a client program; the server balances and reads for them.

REST calls it for group members.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.groups.fair_share import next_step
from opentalos.broker.groups.membership import MembershipService
from opentalos.broker.messaging.messages import START_OFFSET
from opentalos.broker.messaging.plain_messages import (
    Bounds,
    PlainMessage,
    PlainMessages,
    PlainMessageService,
    Spot,
)
from opentalos.broker.values import Commit, ConsumeUnit
from opentalos.model.errors import LeaseNotHeld, OffsetOutOfRange, TalosError
from opentalos.model.identity import Permission, Principal

WORKER_TOKEN_BYTES = 8
RENEW_S = 7.0  # between renewals of a waiting worker, as other clients do
GATHER_S = 0.02  # after the first partition has messages, for the others to follow
SHARE_BYTES_MIN = 64 << 10  # of each partition in one reply


class Seat(NamedTuple):
    """A worker of a group on one topic, and where its calls come from."""

    group: str
    resource: str
    worker: str
    address: str


class Membership(NamedTuple):
    """What a worker holds, and how long if it does not renew."""

    worker: str
    partitions: Sequence[int]
    lease_s: float


class Committed(NamedTuple):
    """Partitions whose checkpoint was stored, and those that the worker does not hold."""

    committed: Sequence[int]
    refused: Sequence[int]


class GroupMemberService:
    """Members are ordinary workers: their leases and commits are those of ConsumerService."""

    def __init__(
        self,
        context: BrokerContext,
        consumers: ConsumerService,
        messages: PlainMessageService,
        membership: MembershipService,
    ) -> None:
        self._context, self._membership = context, membership
        self._consumers, self._messages = consumers, messages

    async def join(self, caller: Principal, seat: Seat) -> Membership:
        """Make the caller a worker of the group; ``seat.worker`` may be empty for a new id.

        Raises: NotOwner: another server coordinates the group; TooManyConsumers.
        """
        token = self._context.clock.token(WORKER_TOKEN_BYTES).hex()
        seat = seat._replace(worker=seat.worker or f"rest-{token}")
        await self._consumers.lock_worker(caller, _unit(seat), seat.address)
        return await self._balance(caller, seat)

    async def renew(self, caller: Principal, seat: Seat) -> Membership:
        """Refresh all leases of the worker and take the next step to an equal share.

        Raises: LeaseNotHeld: its lease expired, it must join again.
        """
        held = await self._held(caller, seat)
        await self._consumers.renew(caller, _unit(seat, held), seat.address)
        return await self._balance(caller, seat)

    async def fetch(
        self, caller: Principal, seat: Seat, bounds: Bounds, wait_s: float
    ) -> Sequence[PlainMessage]:
        """Messages after the group's checkpoints, of every partition that the worker holds.

        They are redelivered until committed. Renews the leases.

        Raises: LeaseNotHeld; OffsetOutOfRange: a position is not retained, the group has to be
            reset.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        while True:
            member = await self.renew(caller, seat)
            left_s = max(0.0, until_s - loop.time())
            spots = await asyncio.gather(
                *(self._spot(caller, seat, partition) for partition in member.partitions)
            )
            turn_s = min(left_s, RENEW_S)
            if spots:
                found = await self._first(caller, seat, spots, (bounds, turn_s))
            else:
                await asyncio.sleep(turn_s)
                found = []
            if found or loop.time() >= until_s:
                return found

    async def commit(self, caller: Principal, seat: Seat, offsets: Mapping[int, int]) -> Committed:
        """Store checkpoints: the last processed message of each partition.

        Raises: PartitionNotExist, UnexpectedOffset, Unavailable, OutcomeUnknown: preceding ones
            may be stored; committing again is safe.
        """
        done: list[int] = []
        refused: list[int] = []
        for partition, offset in offsets.items():
            commit = Commit(seat.group, seat.resource, partition, seat.worker, offset)
            stored = await self._consumers.update_offset(caller, commit)
            (done if stored else refused).append(partition)
        return Committed(done, refused)

    async def leave(self, caller: Principal, seat: Seat) -> None:
        """Release everything now; a worker that has already left is no error."""
        await self._membership.leave(caller, _unit(seat))

    # --- inside ---------------------------------------------------------------------------------

    async def _held(self, caller: Principal, seat: Seat) -> Sequence[int]:
        holdings = await self._consumers.query_workers(caller, seat.group, seat.resource)
        if seat.worker not in holdings:
            raise LeaseNotHeld(f"worker {seat.worker} has no lease: it expired; join again")
        return holdings[seat.worker]

    async def _balance(self, caller: Principal, seat: Seat) -> Membership:
        topic = self._context.topic(caller, Permission.GET_MESSAGE, seat.resource)
        holdings = await self._consumers.query_workers(caller, seat.group, seat.resource)
        holdings = {seat.worker: (), **holdings}
        step = next_step(holdings, seat.worker, topic.consumer_partitions)
        held = {*holdings[seat.worker]} - {*step.release}
        if step.release:
            await self._consumers.unlock_partitions(caller, _unit(seat, step.release))
        if step.take:
            unit = _unit(seat, step.take)
            held |= {*(await self._consumers.lock_partitions(caller, unit, seat.address)).locked}
        return Membership(seat.worker, sorted(held), self._context.config.group.lease_s)

    async def _spot(self, caller: Principal, seat: Seat, partition: int) -> Spot:
        checkpoint = await self._consumers.query_offset(
            caller, seat.group, seat.resource, partition
        )
        return Spot(partition, checkpoint + 1 if checkpoint >= 0 else START_OFFSET)

    async def _first(
        self, caller: Principal, seat: Seat, spots: Sequence[Spot], how: tuple[Bounds, float]
    ) -> Sequence[PlainMessage]:
        """Messages of all partitions, or the first that arrive in one of them."""
        bounds, wait_s = how
        share = Bounds(
            max(1, bounds.messages_max // len(spots)),
            max(min(SHARE_BYTES_MIN, bounds.bytes_max), bounds.bytes_max // len(spots)),
        )
        get = self._messages.get_anywhere
        tasks = [
            asyncio.create_task(get(caller, seat.resource, spot, share, wait_s)) for spot in spots
        ]
        try:
            waiting = set(tasks)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                found = [message for task in done for message in _messages(task)]
                if found:
                    if waiting:  # usually they have some as well
                        done, _ = await asyncio.wait(waiting, timeout=GATHER_S)
                        found += [message for task in done for message in _messages(task)]
                    return found[: bounds.messages_max]
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return []


def _messages(task: asyncio.Task[PlainMessages]) -> Sequence[PlainMessage]:
    """Messages of a read. Raises: OffsetOutOfRange; other errors count only if nothing is found."""
    try:
        return task.result().messages
    except OffsetOutOfRange:
        raise
    except TalosError:
        return []


def _unit(seat: Seat, partitions: Sequence[int] = ()) -> ConsumeUnit:
    return ConsumeUnit(seat.group, seat.resource, seat.worker, tuple(partitions))
