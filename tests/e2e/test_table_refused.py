"""A topic that takes no messages for long, beside one that does: what its table then does.

The topic of the mutations belongs to another user, who withdraws the right to put; or it is
deleted.
"""

import http.client
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.compat.conftest import Sdk
from tests.compat.test_sdk_access import new_key
from tests.e2e.rest.client import rest
from tests.e2e.test_disk import RESERVE_BYTES, fill, small_disk
from tests.e2e.test_metrics import get, samples
from tests.server_process import Key, ServerProcess
from tests.table_load import PARTITIONS, TableLoad, group_of, judged
from tests.waiting import eventually

from opentalos.model.change import StreamView
from opentalos.sdk.sync.client import Client
from opentalos.sdk.tables import TalosTable
from opentalos.testing.simulation.checks.view.table_view import table_views

__all__ = ["small_disk"]  # a fixture

PENDING_MAX = 30  # of one shard
CONFIG = f"""
[sds]
pending_entries_max = {PENDING_MAX}
throttle_max_s = 0.05
refused_max_s = 0.5
"""
OTHER, OWNER = "alice", "root"  # of the topic, of the table
READ = ("GET_MESSAGE", "DESCRIBE_TOPIC")
PAUSE_S = 0.01  # between two calls of one thread
SPACE_BYTES = 4 << 20  # less than the reserve is free


class TwoOwners(TableLoad):
    """The stream of the mutations goes to a topic of OTHER, who says whether it takes them."""

    def __init__(self, server: ServerProcess, folder: Path, key: Key) -> None:
        super().__init__([server], folder, PAUSE_S)
        self.server, self.key = server, key
        self.log, self.image = f"{OTHER}/{self.table}-log", f"{self.table}-image"
        self.streams = {self.log: StreamView.MUTATE_LOG, self.image: StreamView.RECORD_IMAGE}

    def make_topic(self, topic: str) -> str:
        """See TableLoad; the table's owner may put into it."""
        if topic == self.image:
            return super().make_topic(topic)
        arguments = {"topic": topic.removeprefix(f"{OTHER}/"), "partitions": PARTITIONS}
        made = Sdk(self.server).run("create_topic", key=self.key, **arguments)
        self.permit("PUT_MESSAGE", *READ)
        return str(made[0]["resource"])

    def permit(self, *permissions: str) -> None:
        """The table's owner may do exactly this with the topic of OTHER."""
        path = f"{self._log_path}/permissions/{OWNER}"
        self.rest("PUT", path, {"permissions": list(permissions)})

    def delete_topic(self) -> None:
        """Delete the topic of OTHER."""
        self.rest("DELETE", self._log_path)

    @property
    def _log_path(self) -> str:
        return f"topics/{OTHER}%2F{self.table}-log"

    def rest(self, method: str, path: str, document: Any = None) -> Any:
        """The document of a call that must be done."""
        reply = rest(self.server, method, path, document)
        assert reply.status < http.client.BAD_REQUEST, reply
        return reply.document

    def stream(self, topic: str) -> Any:
        """What REST reports of a stream."""
        return self.rest("GET", self.stream_path(topic).removeprefix("/rest/v1/"))

    def rows(self) -> int:
        """How many rows a scan finds now."""
        with Client(self.config()) as client, TalosTable(client, self.table) as table:
            return len(list(table.scan()))

    def published_before(self, topic: str, end_ms: int) -> set[tuple[str, int]]:
        """Rows and sequences of changes before this time that a stream has."""
        (view,) = table_views(self.history())
        return {
            (change.key, change.sequence)
            for stream in view.streams
            if stream.topic == topic
            for changes in stream.rows.values()
            for change in changes
            if change.timestamp_ms < end_ms
        }


def wait_refused(load: TableLoad) -> None:
    """Wait until mutations of every group of rows were refused that began from now on."""
    groups = {group_of(each) for each in load.history().of("mutate") if each.ok}
    began_s = time.monotonic()

    def refused() -> bool:
        found = [
            each
            for each in load.history().of("mutate")
            if each.began_s > began_s and "wait for their stream" in each.error
        ]
        assert all(each.error.startswith("SERVICE_UNAVAILABLE") for each in found)
        return {group_of(each) for each in found} >= groups

    eventually(f"every group of {load.table} is refused", refused)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "server", CONFIG).start()
    yield made
    made.stop()


@pytest.fixture
def load(server: ServerProcess, tmp_path: Path) -> TwoOwners:
    key = new_key(server, "user", "create", OTHER)
    return TwoOwners(server, tmp_path / "load", key)


def wait_metric(server: ServerProcess, name: str, wanted: Callable[[float], bool]) -> None:
    """A page of metrics may be a second old."""

    def reported() -> float:
        return samples(get(server, "/metrics")[2])[f"opentalos_{name}", ()]

    what = f"the metric {name} has the wanted value"
    eventually(what, lambda: wanted(reported()), state=reported)


def test_a_table_that_refuses_loses_nothing_and_recovers(
    server: ServerProcess, load: TwoOwners
) -> None:
    with judged(load, "a topic that took nothing, and writes were refused"):
        load.permit(*READ)
        wait_refused(load)
        assert load.rows()
        assert {load.stream(topic)["state"] for topic in load.streams} == {"running"}
        wait_metric(server, "stream_pending_entries", lambda count: count >= PENDING_MAX)
        server.kill()  # what it owed the topic is in the rows
        server.start()
        wait_refused(load)
        load.permit("PUT_MESSAGE", *READ)


@pytest.fixture
def small_server(small_disk: Path) -> Iterator[ServerProcess]:
    """Its data are on a disk that a test can fill."""
    config = f"{CONFIG}[log]\nspace_reserve_bytes = {RESERVE_BYTES}\n"
    made = ServerProcess(small_disk, config).start()
    yield made
    made.stop()


def test_a_disk_that_is_nearly_full_refuses_writes_of_tables_with_streams(
    small_server: ServerProcess, small_disk: Path, tmp_path: Path
) -> None:
    load = TableLoad([small_server], tmp_path / "load", PAUSE_S)
    with judged(load, "a disk that was nearly full"):
        ballast = fill(small_disk, RESERVE_BYTES - SPACE_BYTES)
        wait_refused(load)
        ballast.unlink()


class Cause(NamedTuple):
    """Why a topic takes nothing, and how an operator mends that."""

    when_full: str
    harm: Callable[[TwoOwners], None]
    mend: Callable[[TwoOwners], object]
    error: str


CAUSES = {
    "withdrawn": Cause(
        "gap",
        lambda load: load.permit(*READ),
        lambda load: load.permit("PUT_MESSAGE", *READ),
        "may no longer put into topic",
    ),
    "deleted": Cause(
        "refuse", TwoOwners.delete_topic, lambda load: load.make_topic(load.log), "topic deleted"
    ),
}


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_a_stream_that_stops_says_since_when_and_can_be_enabled_again(
    server: ServerProcess, load: TwoOwners, cause: Cause
) -> None:
    with judged(load, f"a stream that stopped: {cause.error}"):
        load.rest("PATCH", f"tables/{load.table}", {"when_full": cause.when_full})
        switch = {"table": load.table, "topic": load.log}
        stopped = load.recorder.invoke("operator", "stream", **switch, enabled=False)
        cause.harm(load)
        eventually("the stream stops", lambda: load.stream(load.log)["state"] == "gap")
        load.recorder.ok(stopped)
        load.wait_progress()
        reported = load.stream(load.log)
        assert cause.error in reported["error"]
        assert reported["no_mark"] == "the stream stopped; changes are missing"
        assert load.stream(load.image)["state"] == "running"
        wait_metric(server, "streams_stopped", lambda count: count == 1)
        said = (server.folder / "server.stderr").read_text()
        assert cause.error in said or "was deleted" in said
        cause.mend(load)
        load.wait_progress()
        assert load.stream(load.log)["state"] == "gap"  # never closed by itself
        begun = load.recorder.invoke("operator", "stream", **switch, enabled=True)
        load.rest("PUT", load.stream_path(load.log).removeprefix("/rest/v1/"))
        load.recorder.ok(begun)
        assert load.stream(load.log)["state"] == "running"
        wait_metric(server, "streams_stopped", lambda count: count == 0)
    if cause.when_full == "gap":
        since = reported["gap_ms"]
        assert load.published_before(load.image, since) <= load.published_before(load.log, since)
