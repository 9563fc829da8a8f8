"""RemoteLogs: offsets and amounts of partitions, whichever servers of the cluster serve them."""

import asyncio
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.catalog.access.authorize import topic_not_exist
from opentalos.catalog.topics.topic import Topic
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import PartitionStats
from opentalos.model import errors
from opentalos.model.errors import BadRequest, NotOwner, PartitionNotServing, TalosError
from opentalos.model.message import OffsetRange

CALL = "partitions"
ASK_S = 3.0  # for another server's answer; clients time out after 5 s
LOOKS_AT_ONCE = 16  # own logs that are asked at the same time for one caller
PARTITIONS_MAX = 10_000  # of one call between servers


class Wanted(Enum):
    """What is asked of each partition."""

    OFFSETS = "offsets"  # confirmed against the manifest
    STATE = "state"  # those, and amounts
    AMOUNTS = "amounts"  # amounts; offsets as the server remembers them
    TIMES = "times"  # the first offset stored at or after a time


class Question(NamedTuple):
    """What is asked of some partitions. ``times``: Unix milliseconds by partition, for TIMES."""

    wanted: Wanted = Wanted.OFFSETS
    times: Mapping[int, int] = MappingProxyType({})


class PartitionFacts(NamedTuple):
    """What a log says of itself now. ``stats``: only if amounts were asked for; ``found``: the
    offset of the time that was asked for."""

    offsets: OffsetRange
    epoch: int
    stats: PartitionStats | None = None
    found: int = -1


Found = PartitionFacts | TalosError
_OFFSETS = Question()


class RemoteLogs:
    """Asks own logs directly and the others through their servers, one call for each server.

    A partition that cannot tell now has its error as the answer. A NotOwner never gets out of
    here: a request that only looks at a partition is not to be forwarded to its server.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def look(
        self, topic: Topic, partitions: Sequence[int], question: Question = _OFFSETS
    ) -> Sequence[Found]:
        """Facts or error of each partition, in the order of ``partitions``."""
        found = await self._ask_all(topic, partitions, question)
        moved = [number for number, fact in found.items() if isinstance(fact, NotOwner)]
        if moved:
            try:
                await self._context.ownership.catch_up(topic.uuid)
            except TalosError:
                pass  # the first answer stands
            else:
                found.update(await self._ask_all(topic, moved, question))
        return [_without_owner(found[number]) for number in partitions]

    async def facts(self, topic: Topic, partition: int) -> PartitionFacts:
        """Facts of one partition. Raises: PartitionNotServing and others."""
        (found,) = await self.look(topic, [partition])
        if isinstance(found, TalosError):
            raise found
        return found

    async def answer(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Another server asks for partitions that this one serves. Raises: BadRequest."""
        resource, numbers, question = _request(arguments)
        topic = self._context.topics.by_resource(resource)
        if topic is None:
            raise topic_not_exist(resource)
        logs: dict[int, PartitionLog] = {}
        found: dict[int, Found] = {}
        for number in numbers:
            if number >= topic.partitions_ever:
                raise BadRequest(f"topic {resource} has no partition {number}")
            try:
                logs[number] = self._context.partition_log(topic, number)
            except TalosError as error:
                found[number] = error
        found.update(await _look_at(logs, question))
        return {"partitions": [_value(number, fact) for number, fact in found.items()]}

    async def _ask_all(
        self, topic: Topic, partitions: Sequence[int], question: Question
    ) -> dict[int, Found]:
        own: dict[int, PartitionLog] = {}
        others: dict[str, list[int]] = {}
        found: dict[int, Found] = {}
        for number in partitions:
            try:
                own[number] = self._context.partition_log(topic, number)
            except NotOwner as error:
                if error.address:
                    others.setdefault(error.address, []).append(number)
                else:
                    found[number] = error
            except TalosError as error:
                found[number] = error
        for part in await asyncio.gather(
            _look_at(own, question),
            *(self._ask(address, topic, numbers, question) for address, numbers in others.items()),
        ):
            found.update(part)
        return found

    async def _ask(
        self, address: str, topic: Topic, numbers: Sequence[int], question: Question
    ) -> Mapping[int, Found]:
        peers = self._context.peers
        if peers is None:
            raise RuntimeError("a lone server has nobody to ask")
        arguments = {
            "topic": topic.resource,
            "partitions": list(numbers),
            "wanted": question.wanted.value,
            "times": [question.times.get(number, 0) for number in numbers],
        }
        try:
            async with asyncio.timeout(ASK_S):
                answer = await peers.ask(address, CALL, arguments)
            found = {value["partition"]: _facts(value) for value in answer["partitions"]}
        except (TalosError, TimeoutError) as error:
            reason = str(error) or f"no answer within {ASK_S} s"
            refusal = PartitionNotServing(f"server {address}: {reason}")
            return dict.fromkeys(numbers, refusal)
        except (KeyError, TypeError, ValueError) as error:
            refusal = PartitionNotServing(f"server {address} sent an answer of no meaning")
            refusal.__cause__ = error
            return dict.fromkeys(numbers, refusal)
        silence = PartitionNotServing(f"server {address} did not tell")
        return {number: found.get(number, silence) for number in numbers}


async def _look_at(logs: Mapping[int, PartitionLog], question: Question) -> Mapping[int, Found]:
    room = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(number: int, log: PartitionLog) -> Found:
        async with room:
            try:
                return await _look(log, question.wanted, question.times.get(number, 0))
            except TalosError as error:
                return error

    found = await asyncio.gather(*(look(number, log) for number, log in logs.items()))
    return dict(zip(logs, found, strict=True))


async def _look(log: PartitionLog, wanted: Wanted, time_ms: int) -> PartitionFacts:
    if wanted is Wanted.TIMES:
        found = await log.offset_at(time_ms)
        return PartitionFacts(log.writer.range(), log.epoch, found=found)
    if wanted is Wanted.AMOUNTS:
        stats = await log.stats()
        start = stats.total_messages - stats.retained_messages
        return PartitionFacts(OffsetRange(start, stats.total_messages), log.epoch, stats)
    offsets = await log.offsets()
    return PartitionFacts(offsets, log.epoch, await log.stats() if wanted is Wanted.STATE else None)


def _request(arguments: Mapping[str, Any]) -> tuple[str, list[int], Question]:
    """Raises: BadRequest."""
    try:
        resource, numbers = arguments["topic"], arguments["partitions"]
        wanted, times = Wanted(arguments["wanted"]), arguments["times"]
    except (KeyError, ValueError) as error:
        raise BadRequest(f"need topic, partitions, wanted and times: {error!r}") from error
    if not isinstance(resource, str) or not _are_numbers(numbers) or not _are_numbers(times):
        raise BadRequest(f"topic is a name, partitions and times are at most {PARTITIONS_MAX}")
    if any(number < 0 for number in numbers) or len(numbers) != len(times):
        raise BadRequest("partitions count from 0, and each has a time")
    return resource, numbers, Question(wanted, dict(zip(numbers, times, strict=True)))


def _are_numbers(value: object) -> bool:
    listed = isinstance(value, list) and len(value) <= PARTITIONS_MAX
    return listed and all(type(each) is int for each in value)  # type: ignore[attr-defined]


def _without_owner(fact: Found) -> Found:
    return PartitionNotServing(str(fact)) if isinstance(fact, NotOwner) else fact


def _value(number: int, fact: Found) -> Mapping[str, Any]:
    if isinstance(fact, TalosError):
        return {"partition": number, "error": type(fact).__name__, "text": str(fact)}
    return {"partition": number, **fact._asdict()}


def _facts(value: Mapping[str, Any]) -> Found:
    """Raises: KeyError, TypeError, ValueError."""
    if "error" in value:
        kind = getattr(errors, value["error"], PartitionNotServing)
        known = isinstance(kind, type) and issubclass(kind, TalosError)
        return (kind if known else PartitionNotServing)(value["text"])
    stats = value["stats"]
    return PartitionFacts(
        OffsetRange(*map(int, value["offsets"])),
        int(value["epoch"]),
        None if stats is None else PartitionStats(*map(int, stats)),
        int(value["found"]),
    )
