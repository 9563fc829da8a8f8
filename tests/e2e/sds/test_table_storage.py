"""Tables in the files of one server: restarts and backups leave no table and no stream short."""

import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from tests.unit.broker.tables.support import HASHED, integer, key, put, remove, streamed
from tests.waiting import eventually, eventually_async, limit_s

from opentalos.broker.broker import Broker
from opentalos.broker.tables.api.values import ScanQuery, TableSpec, WriteItem, Written
from opentalos.broker.tables.row_tables import rows_of
from opentalos.model.datum import Columns
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.mutation import Mutation, Operation
from opentalos.sdk import SimpleConsumer
from opentalos.sdk.stream import StreamDecoder
from opentalos.server.backup.backup import make_backup
from opentalos.server.backup.restore import restore_backup
from opentalos.server.config import Config
from opentalos.testing import EmbeddedServer

TOPIC, PARTITIONS, USERS = "changes", 2, 8
SCHEMA = streamed(HASHED, TOPIC)
ROOT = Principal(id="root", number=1, admin=True)
Published = dict[str, dict[int, Columns]]  # resulting values of changes, by user and sequence


def add(user: str) -> Mutation:
    return Mutation(Operation.INCREMENT, key(user, 0), {"count": integer(1)})


class Tables:
    """The broker of a server in this process, called on its own loop."""

    def __init__(self, server: EmbeddedServer) -> None:
        assert server._running is not None
        self._server = server
        self._thread, inner, _ = server._running
        self.broker: Broker = inner.broker

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self._thread.run(call, limit_s())

    def make(self) -> None:
        self._server.create_topic(TOPIC, PARTITIONS)
        self.run(self.broker.table_admin.create(ROOT, "people", TableSpec(schema=SCHEMA)))

    def add_to_all(self) -> None:
        """One more for each user, in one batch."""
        items = [WriteItem("people", add(f"u{user}")) for user in range(USERS)]
        for outcome in self.run(self.broker.tables.batch(ROOT, items)):
            assert isinstance(outcome, Written), outcome

    def counts(self) -> dict[str, int]:
        async def scanned() -> tuple[Sequence[Columns]] | None:
            try:
                query = ScanQuery(table="people", limit=1_000)
                return ((await self.broker.tables.scan(ROOT, query)).records,)
            except TalosError as error:
                if not error.retry_safe:
                    raise
                return None  # what was not done is sent again

        (rows,) = self.run(eventually_async("a scan is answered", scanned))
        return {str(item["user"].value): int(item["count"].value) for item in rows}

    def published(self) -> Published:
        """What the topic has now of each user's changes."""
        decoder = StreamDecoder.of(SCHEMA, TOPIC)
        found: Published = {f"u{user}": {} for user in range(USERS)}
        with SimpleConsumer(self._server.client_config(), TOPIC) as consumer:
            for partition, held in consumer.offsets().items():
                offset = held.start
                while offset < held.next:
                    for record in consumer.fetch(partition, offset):
                        change = decoder.record(record).change
                        found[str(change.key["user"].value)][change.sequence] = change.columns
                        offset = record.offset + 1
        return found

    def wait_published(self, counts: dict[str, int]) -> Published:
        """The same once it has every change that these counts come from."""
        wanted = {user: set(range(1, count + 1)) for user, count in counts.items()}

        def whole() -> Published | None:
            found = self.published()
            has_all = all(numbers <= set(found[user]) for user, numbers in wanted.items())
            return found if has_all else None

        published = eventually(
            f"the topic has the changes of {counts}",
            whole,
            state=lambda: {user: len(changes) for user, changes in self.published().items()},
        )
        assert published is not None
        return published


def test_a_table_and_its_stream_continue_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        for times in (1, 2, 3):
            tables = Tables(server)
            if times == 1:
                tables.make()
            for _ in range(10):
                tables.add_to_all()
            counts = tables.counts()
            assert counts == {f"u{user}": 10 * times for user in range(USERS)}
            server.stop()
            server.start()
        tables = Tables(server)
        assert tables.counts() == counts
        for changes in tables.wait_published(counts).values():
            values = [changes[number]["count"].value for number in sorted(changes)]
            assert values == list(range(1, 31))


def restore(folder: Path) -> None:
    key = folder / "data" / "server.key"
    restore_backup(folder / "copy", folder / "restored", lambda done, total: None, key)


def test_a_backup_under_load_is_a_table_whose_stream_lacks_nothing(tmp_path: Path) -> None:
    config = Config().with_server(data=str(tmp_path / "data"))
    with EmbeddedServer(tmp_path / "data") as server:
        tables = Tables(server)
        tables.make()
        warm, stop = threading.Event(), threading.Event()
        rounds = 0

        def load() -> None:
            nonlocal rounds
            while not stop.is_set():
                tables.add_to_all()
                rounds += 1
                if rounds >= 20:
                    warm.set()

        writing = threading.Thread(target=load)
        writing.start()
        try:
            eventually("20 rounds are written", warm.is_set)
            before = rounds
            make_backup(config, tmp_path / "copy", lambda done, total: None)
        finally:
            stop.set()
            writing.join(limit_s())
    restore(tmp_path)
    with EmbeddedServer(tmp_path / "restored") as server:
        tables = Tables(server)
        counts = tables.counts()
        assert all(before <= counts[f"u{user}"] <= rounds for user in range(USERS))
        tables.wait_published(counts)
        tables.add_to_all()
        assert tables.counts() == {user: count + 1 for user, count in counts.items()}
        tables.run(tables.broker.tables.write(ROOT, "people", remove("u0", 0)))
        tables.run(tables.broker.tables.write(ROOT, "people", put("u0", 0)))


def test_a_table_made_during_a_backup_is_there_and_empty(tmp_path: Path) -> None:
    config = Config().with_server(data=str(tmp_path / "data"))
    with EmbeddedServer(tmp_path / "data") as server:
        tables = Tables(server)
        rows = tables.broker.table_upkeep.access.rows
        tables.make()
        tables.add_to_all()
        (table,) = tables.broker.catalogs.tables.all()
        # A backup copies rows before records: so it finds a table that is made in between.
        tables.run(rows.drop_table(rows_of(table)))
        make_backup(config, tmp_path / "copy", lambda done, total: None)
    restore(tmp_path)
    with EmbeddedServer(tmp_path / "restored") as server:
        tables = Tables(server)
        assert tables.counts() == {}
        tables.add_to_all()
        assert tables.counts() == {f"u{user}": 1 for user in range(USERS)}
