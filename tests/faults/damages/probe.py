"""What a server says of its data: every message, one more put, and all other facts."""

import http
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from tests.e2e.rest.client import authorization, rest
from tests.faults.damages.judge import Partition, Refused
from tests.faults.damages.known import KEY_FACT, Asked, position_name
from tests.raw_client import NotAnswered, RawClient, RawTopic, TalosError, connection_to, idl
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed, elapse

from opentalos.broker.admin.stored.unknown_topics import FIRST_S, LEADS_CHECK_S
from opentalos.wire.message import decode_block

# Codes of common.thrift: nothing exists under the name, the offset is beyond the log, the caller
# has no permission or is not known. Said of what was acknowledged, they deny it.
DENIALS = {3, 5, 14, 22, 28, 30, 41}
NOT_NOW = {21, 27}  # a partition that is opening, for example
NOT_ANSWERED = (TalosError, NotAnswered)
TRIES = 20
PAUSE_S = 0.05
COMPARED_S = FIRST_S + 2 * LEADS_CHECK_S
# Parts of the names of metrics about damage; each is compared with what it is without damage.
COUNTERS = ("truncat", "tail_cut", "corrupt", "damage", "aside", "unknown_topics")


def refusal_of(error: Exception) -> Refused:
    """An error of ``RawClient`` as the judge sees it."""
    denies = isinstance(error, TalosError) and error.code in DENIALS
    return Refused(str(error), denies)


@dataclass
class Probe:
    """Asks one server that runs; ``expected`` says how many messages each partition has had."""

    server: ServerProcess
    asked: Asked
    counts: Mapping[Partition, int]
    tries: int = TRIES  # of a call that may come a moment too early
    client: RawClient = field(init=False)
    _hasty: set[Partition] = field(default_factory=set)  # those that were waited for in vain

    def __post_init__(self) -> None:
        self.client = RawClient(self.server.port)

    def observe(self) -> dict[str, Any]:
        """Fields of ``Observed`` that need the server."""
        read: dict[Partition, dict[int, bytes]] = {}
        refused: dict[Partition, dict[int, Refused]] = {}
        put: dict[Partition, int | Refused] = {}
        partitions = [
            Partition(name, number)
            for name, (_, count) in self.asked.topics.items()
            for number in range(count)
        ]
        for partition in partitions:
            read[partition], refused[partition] = self.read(partition)
        facts = dict(self.facts())
        for partition in partitions:
            if partition.topic in self.asked.put:
                put[partition] = self.put(partition, read[partition])
        if any(isinstance(fact, Refused) and fact.denies for fact in facts.values()):
            elapse("the server compares its topics with the stored files", COMPARED_S)
        return {"read": read, "refused": refused, "put": put, "facts": facts}

    def topic(self, name: str) -> RawTopic:
        resource, _ = self.asked.topics[name]
        return RawTopic(self.client, name, idl("topic").TopicTalosResourceName(resource))

    def read(
        self, partition: Partition, start: int = 0
    ) -> tuple[dict[int, bytes], dict[int, Refused]]:
        """Messages by offset up to the end; a get that is refused is followed by the next one."""
        topic, count = self.topic(partition.topic), self.counts.get(partition, 0)
        found: dict[int, bytes] = {}
        refused: dict[int, Refused] = {}
        offset = start
        while True:
            try:
                blocks = self._patient(
                    partition, partial(topic.get, offset, partition=partition.number)
                )
            except NOT_ANSWERED as error:
                refused[offset] = refusal_of(error)
                offset += 1
                if offset < count:
                    continue
                return found, refused
            new = dict(_messages(blocks))
            found.update((at, content) for at, content in new.items() if at >= offset)
            if not new or max(new) < offset:
                return found, refused
            offset = max(new) + 1

    def put(self, partition: Partition, read: Mapping[int, bytes]) -> int | Refused:
        """The offset that one more message gets."""
        content = f"one more in {partition}".encode()
        topic = self.topic(partition.topic)
        try:
            self._patient(partition, lambda: topic.put(content, partition=partition.number))
        except NOT_ANSWERED as error:
            return refusal_of(error)
        count = self.counts.get(partition, 0)
        missing = next((offset for offset in range(count) if offset not in read), count)
        offsets = [
            offset
            for start in {missing, count}
            for offset, other in self.read(partition, start)[0].items()
            if other == content
        ]
        return offsets[-1] if offsets else Refused("what was just put cannot be read", denies=True)

    def facts(self) -> Iterator[tuple[str, str | Refused]]:
        """Positions of groups, rows, topics, the table, and whether a tenant's key is valid."""
        for group, partition in self.asked.positions:
            yield position_name(group, partition), self._position(group, partition)
        yield from self._rows()
        for name in self.asked.put:
            yield f"topic {name}", self._shown(f"topics/{name}", "durability", "partitions")
        yield f"table {self.asked.table}", self._shown(f"tables/{self.asked.table}", "columns")
        yield KEY_FACT, self._key()

    def _position(self, group: str, partition: Partition) -> str | Refused:
        request = idl("consumer").QueryOffsetRequest(
            consumerGroup=group,
            topicAndPartition=self.topic(partition.topic).partition(partition.number),
        )
        try:
            reply = self._patient(
                partition, lambda: self.client.call("consumer", "queryOffset", request)
            )
        except NOT_ANSWERED as error:
            return refusal_of(error)
        return str(reply.msgOffset)

    def _rows(self) -> Iterator[tuple[str, str | Refused]]:
        reply = rest(self.server, "POST", f"tables/{self.asked.table}/rows/scan", {})
        if reply.status != http.HTTPStatus.OK:
            yield "rows", _refused(reply)
            return
        for row in reply.document["rows"]:
            yield f"row {row['u']}", json.dumps(row, sort_keys=True)
        yield "rows", "can be read"

    def _shown(self, path: str, *names: str) -> str | Refused:
        reply = rest(self.server, "GET", path)
        if reply.status != http.HTTPStatus.OK:
            return _refused(reply)
        return json.dumps({name: reply.document[name] for name in names}, sort_keys=True)

    def _key(self) -> str | Refused:
        connection = connection_to(self.server.port, None)
        try:
            connection.request("GET", "/rest/v1/topics", headers=authorization(self.asked.tenant))
            reply = connection.getresponse()
            reply.read()
        finally:
            connection.close()
        valid = reply.status == http.HTTPStatus.OK
        return "valid" if valid else Refused(f"status {reply.status}", denies=True)

    def _patient(self, partition: Partition, call: Callable[[], Any]) -> Any:
        """The answer of a call that may come a moment too early. Raises: NOT_ANSWERED."""
        for _ in range(0 if partition in self._hasty else self.tries):
            try:
                return _answer(call)
            except TalosError as error:
                if error.code not in NOT_NOW:
                    raise
            except NotAnswered:
                pass
            elapse("the partition opens", PAUSE_S)
        self._hasty.add(partition)
        return _answer(call)

    def counters(self) -> dict[str, float]:
        """Metrics about damage."""
        connection = connection_to(self.server.port, None)
        try:
            connection.request("GET", "/metrics", headers=authorization())
            page = connection.getresponse().read().decode()
        finally:
            connection.close()
        series = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in series if _is_of_damage(name)}


def _answer(call: Callable[[], Any]) -> Any:
    """Raises: NOT_ANSWERED."""
    try:
        return call()
    except AssertionError as error:  # an internal error, in plain text
        raise NotAnswered(str(error)) from error


def _is_of_damage(name: str) -> bool:
    return any(part in name for part in COUNTERS)


def _refused(reply: Any) -> Refused:
    denies = reply.status in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.UNAUTHORIZED)
    return Refused(f"status {reply.status} {reply.document}", denies)


def _messages(reply: Any) -> Iterator[tuple[int, bytes]]:
    for block in reply.messageBlocks or ():
        content = decode_block(block.messageBlock, block.compressionType, block.messageNumber)
        for index, message in enumerate(content):
            yield block.startMessageOffset + index, message.data


def moved(counters: Mapping[str, float], usual: Mapping[str, float]) -> list[str]:
    """Counters that are larger than they are without damage."""
    return [name for name, value in counters.items() if value > usual.get(name, 0.0)]


def log_lines(path: Path, start: int = 0) -> list[str]:
    """Warnings and errors of a server's log, and what is no line of it, such as a traceback."""
    with path.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return [line for line in lines if line.split(" ", 2)[1:2] not in (["info"], ["debug"])]


def verify_lines(data: Path) -> list[str]:
    """What ``talos log verify`` calls damage; empty if it found none."""
    done = completed([TALOS, "log", "verify", "--data", data])
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def noted_lines(data: Path) -> list[str]:
    """Everything that ``talos log verify`` notes, such as a torn tail; the first start cuts it."""
    return noted_of(completed([TALOS, "log", "verify", "--data", data]))


def noted_of(done: CompletedProcess[str]) -> list[str]:
    """All lines but the last, which counts."""
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if not line.startswith("checked ")]
