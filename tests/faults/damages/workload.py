"""Puts messages, rows and positions, and remembers what was acknowledged.

There is one client, so the offset of a message is the number of those acknowledged before it.
"""

import http
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from tests.e2e.rest.client import figure, rest
from tests.faults.damages.judge import Expected, Partition
from tests.faults.damages.known import Asked, Known, position_name
from tests.faults.damages.probe import Probe
from tests.raw_client import RawClient, RawTopic, idl
from tests.server_process import Key, ServerProcess
from tests.waiting import eventually

# Segments and journals so small that they are rolled, merged and trimmed all the time.
CONFIG = """
[log]
journal = "{journal}"
journal_bytes_max = 65_536
segment_bytes_max = {segment_bytes_max}
retention_interval_s = 0.5
merge_segments_min = 3
delete_grace_s = 0.5
[message]
get_wait_s = 0.0
"""
SEGMENT_BYTES_MAX = 6_000
SMALL_SEGMENT_BYTES_MAX = 1_100  # of the first run: so small that the second one merges them
TOPICS = {"synced": 3, "flushed": 2, "changes": 2, "late": 1}  # partitions
STREAM, LATE = "changes", "late"
TABLE = "people"
GROUPS = {"readers": "synced", "others": "flushed"}
TENANT = "tenant"
ROWS = 12
ROUNDS = 6  # of a run
PUTS = 3  # to each partition in a round
MESSAGES_MAX, BYTES_MAX = 3, 200  # of a put
SYSTEM_TOPICS = ("system/__audit", "system/__usage", "system/__metrics")
SUCCESSES = range(http.HTTPStatus.OK, http.HTTPStatus.MULTIPLE_CHOICES)


def config_of(journal: str, *, small_segments: bool = False) -> str:
    """Text of the TOML file."""
    size = SMALL_SEGMENT_BYTES_MAX if small_segments else SEGMENT_BYTES_MAX
    return CONFIG.format(journal=journal, segment_bytes_max=size)


class Workload:
    """One client of one server."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._client = RawClient(0)
        self._lots = random.Random(0)
        self._messages: dict[Partition, list[bytes]] = defaultdict(list)
        self._facts: dict[str, str] = {}
        self._mutations = 0
        self._topics: dict[str, tuple[str, int]] = {}
        self._tenant = Key("", "")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it the server runs; it is killed at the end, unless it has ended before."""
        self._server.start()
        self._client = RawClient(self._server.port)
        try:
            yield
        finally:
            self._client.close()
            self._server.kill()

    def _rest(self, method: str, path: str, document: Any = None) -> Any:
        reply = rest(self._server, method, path, document)
        assert reply.status in SUCCESSES, reply
        return reply.document

    # --- what is put --------------------------------------------------------------------------

    def make(self) -> None:
        for name in TOPICS:
            if name != LATE:
                self._make_topic(name)
        self._rest(
            "POST",
            "tables",
            {
                "name": TABLE,
                "group": ["u"],
                "key": ["k"],
                "columns": {"u": "int64", "k": "string", "n": "int32", "text": "string"},
                "hashed": True,
                "shards": 2,
                "streams": {STREAM: {}},
            },
        )

    def _make_topic(self, name: str) -> None:
        durability = "flushed" if name == "flushed" else "synced"
        topic = RawTopic.create(self._client, name, partitions=TOPICS[name], durability=durability)
        self._topics[name] = topic.resource.topicTalosResourceName, TOPICS[name]

    def make_late(self) -> None:
        """What the last run adds, so that no earlier state of ``meta.sqlite`` has it."""
        self._make_topic(LATE)
        self._rest("POST", "principals", {"id": TENANT})
        made = self._rest("POST", f"principals/{TENANT}/keys")
        self._tenant = Key(made["key_id"], made["secret"])

    def work(self) -> None:
        for _ in range(ROUNDS):
            for name in (each for each in self._topics if each != STREAM):
                for number in range(TOPICS[name]):
                    for _ in range(PUTS):
                        self._put(Partition(name, number))
            self._put_row(self._lots.randrange(ROWS))
        for group, name in GROUPS.items():
            self._commit(group, name)

    def _put(self, partition: Partition) -> None:
        messages = self._messages[partition]
        count = self._lots.randint(1, MESSAGES_MAX)
        new = [
            f"{partition} {number} ".encode()
            + self._lots.randbytes(self._lots.randint(1, BYTES_MAX))
            for number in range(len(messages), len(messages) + count)
        ]
        resource = idl("topic").TopicTalosResourceName(self._topics[partition.topic][0])
        topic = RawTopic(self._client, partition.topic, resource)
        topic.put(*new, partition=partition.number)
        messages += new

    def _put_row(self, number: int) -> None:
        self._mutations += 1
        row = {"u": number, "k": "a", "n": self._mutations, "text": "x" * self._lots.randint(1, 99)}
        self._rest("POST", f"tables/{TABLE}/rows/put", {"row": row})
        self._facts[f"row {number}"] = json.dumps(row, sort_keys=True)

    def _commit(self, group: str, name: str) -> None:
        path = f"topics/{name}/groups/{group}/workers"
        worker = self._rest("POST", path)["worker"]
        offsets = {
            str(number): self._lots.randrange(len(self._messages[Partition(name, number)]))
            for number in range(TOPICS[name])
        }
        done = self._rest("POST", f"{path}/{worker}/commits", {"offsets": offsets})
        assert not done["refused"], done
        self._rest("DELETE", f"{path}/{worker}")
        for number, offset in offsets.items():
            self._facts[position_name(group, Partition(name, int(number)))] = str(offset)

    # --- the end ------------------------------------------------------------------------------

    def wait_merged(self) -> None:
        eventually("segments are merged", lambda: figure(self._server, "log_merges_total"))

    def settle(self) -> None:
        """Everything is published, and idle partitions have end marks."""
        path = f"tables/{TABLE}/streams/{STREAM}"

        def published() -> bool:
            mark = self._rest("GET", path)["mark"]
            return mark is not None and sum(mark["offsets"].values()) >= self._mutations

        eventually("the stream has every change", published)
        seen = -1.0

        def marked() -> bool:
            nonlocal seen
            before, seen = seen, figure(self._server, "log_end_marks_total")
            return before == seen

        eventually("no more end marks are written", marked)
        for name in SYSTEM_TOPICS:
            shown = rest(self._server, "GET", f"topics/{quote(name, safe='')}")
            if shown.status == http.HTTPStatus.OK:  # it is made with its first message
                self._topics[name] = shown.document["resource"], shown.document["partitions"]
        probe = Probe(self._server, self._asked(), {})
        for name in self._topics.keys() & {STREAM, *SYSTEM_TOPICS}:
            for number in range(self._topics[name][1]):
                partition = Partition(name, number)
                read, refused = probe.read(partition)
                assert not refused, refused
                self._messages[partition] = [read[offset] for offset in sorted(read)]
        for name, found in probe.facts():
            assert isinstance(found, str), (name, found)
            assert self._facts.setdefault(name, found) == found
        probe.client.close()

    def last_puts(self) -> None:
        """Of some partitions the last commit has no witness when the server is killed."""
        for partition in (Partition("synced", 0), Partition("flushed", 0), Partition("synced", 1)):
            self._put(partition)

    def _asked(self) -> Asked:
        positions = tuple(
            (group, Partition(name, number))
            for group, name in GROUPS.items()
            for number in range(TOPICS[name])
        )
        return Asked(self._topics, frozenset(TOPICS), positions, TABLE, self._tenant)

    def known(self) -> Known:
        """What there was in the end."""
        growing = frozenset((STREAM, *SYSTEM_TOPICS))
        return Known(Expected(dict(self._messages), self._facts, growing), self._asked())
