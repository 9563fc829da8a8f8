"""What the streams of a table tell, as the SDS client makes changes and reads messages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import SDS_PROGRAMS, SDS_PYTHON, Sdk
from tests.compat.test_sds_wire import SDS, Sds
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import completed, eventually

from opentalos.model.change import StreamView
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import Record
from opentalos.sdk.sync.client import Client
from opentalos.sdk.sync.simple_consumer import SimpleConsumer
from opentalos.wire._generated.sds import ErrorCode, MutationType
from opentalos.wire.sds.change import decode_change

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "sds"
KEY = {"grp": "g", "id": 1}
LOG_VIEW, IMAGE_VIEW = StreamView.MUTATE_LOG, StreamView.RECORD_IMAGE
TOPICS = {LOG_VIEW: "streamed-log", IMAGE_VIEW: "streamed-image"}
LOG_TOPIC = TOPICS[LOG_VIEW]
PUT, DELETE, INCREMENT = MutationType.PUT, MutationType.DELETE, MutationType.INCREMENT
# Record, kind and whether the row is gone, in the order of the changes.
LOG: list[tuple[dict[str, Any], int, bool]] = [
    ({**KEY, "count": 5, "token": "a"}, PUT, False),
    ({**KEY, "count": 8}, INCREMENT, False),
    ({**KEY, "token": "a"}, DELETE, False),
    ({**KEY, "flag": "f"}, PUT, False),
    (KEY, DELETE, True),
]
IMAGES: list[tuple[dict[str, Any], bool]] = [
    ({**KEY, "count": 5, "token": "a"}, False),
    ({**KEY, "count": 8, "token": "a"}, False),
    ({**KEY, "count": 8}, False),
    ({**KEY, "count": 8, "flag": "f"}, False),
    (KEY, True),
]


def test_the_golden_bytes_are_what_the_client_writes() -> None:
    done = completed([SDS_PYTHON, SDS_PROGRAMS / "golden_changes.py"], check=True)
    committed = {path.stem: path.read_text() for path in GOLDEN.glob("*.hex")}
    assert json.loads(done.stdout) == {
        name: "".join(digits.split()) for name, digits in committed.items()
    }


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    config = ClientConfig(endpoints=(server.url,), key_id=ROOT_KEY.key_id, secret=ROOT_KEY.secret)
    with Client(config) as opened:
        yield opened


@pytest.fixture(scope="module")
def delivered(sds: Sdk, sdk: Sdk, client: Client) -> dict[StreamView, list[Record]]:
    """The messages of each view, once the changes of the program are all there."""
    for topic in TOPICS.values():
        sdk.topic(topic, partitions=3)
    streams = {topic: view.name for view, topic in TOPICS.items()}
    said = sds.run("stream_writes", shards=4, streams=streams)
    assert said == [{"refused": False}, {"streams": sorted(streams)}]
    return {view: records_of(client, topic, len(LOG)) for view, topic in TOPICS.items()}


def records_of(client: Client, topic: str, count: int) -> list[Record]:
    """The first ``count`` messages of a topic, all of which are of one row."""
    found: list[Record] = []
    with SimpleConsumer(client, topic) as consumer:

        def arrived() -> bool:
            bounds = consumer.offsets().items()
            filled = [partition for partition, bound in bounds if bound.next]
            assert len(filled) <= 1, "the changes of a row are in one partition"
            for partition in filled:
                while fetched := consumer.fetch(partition, found[-1].offset + 1 if found else 0):
                    found.extend(fetched)
            return len(found) >= count

        what = f"{count} messages are in the topic {topic}"
        eventually(what, arrived, state=lambda: f"{len(found)}")
    return found


@pytest.mark.parametrize("view", TOPICS)
def test_the_client_reads_each_change_in_order(
    sds: Sdk, delivered: dict[StreamView, list[Record]], view: StreamView
) -> None:
    payloads = [(view.name, record.data.hex()) for record in delivered[view]]
    read = sds.run("read_changes", payloads=payloads)
    assert all(item["left"] == 0 for item in read)
    if view is LOG_VIEW:
        assert [(item["record"], item["type"], item["deleted"]) for item in read] == LOG
    else:
        assert [(item["record"], item["deleted"]) for item in read] == IMAGES
    times = [item["timestamp"] for item in read]
    assert times == sorted(set(times))


def test_messages_count_the_changes_of_their_row(delivered: dict[StreamView, list[Record]]) -> None:
    numbers = [str(number + 1) for number in range(len(LOG))]
    for records in delivered.values():
        assert [record.sequence_number for record in records] == numbers
        assert len({record.partition_key for record in records}) == 1


def test_a_checkpoint_says_how_far_a_stream_is_complete(
    server: ServerProcess, delivered: dict[StreamView, list[Record]]
) -> None:
    calls = Sds(server.port)
    _, change = decode_change(LOG_VIEW, delivered[LOG_VIEW][-1].data, tuple(KEY))

    def recent_mark() -> Any:
        try:
            found = calls.call("admin", "getLatestStreamCheckpoint", "streamed", LOG_TOPIC)
        except SDS.ServiceException as error:
            if error.errorCode != ErrorCode.SERVICE_UNAVAILABLE:
                raise
            return None
        return found if found.timestamp >= change.timestamp_ms else None

    mark = eventually("the checkpoint of the stream covers the last change", recent_mark)
    calls.http.close()
    assert mark.topicName == LOG_TOPIC
    assert [state.partitionId for state in mark.partitionStates] == [0, 1, 2]
    assert sum(state.offset for state in mark.partitionStates) == len(LOG)
