"""Bytes of real clients and a real Kafka (tests/golden/kafka): decoded, and encoded to the same."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.unit.matrix import matrix

from opentalos.gateway.kafka.handlers import TABLE
from opentalos.wire.kafka.apis import ApiKey, api_of, read_header, read_response, skip_tags
from opentalos.wire.kafka.codec import Cursor, decode, encode

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka"
FILE_BYTES_MAX = 64 << 10
MADE = "kio"


class Exchange(NamedTuple):
    """A request and its answer."""

    key: ApiKey
    version: int
    client: str
    request: bytes
    response: bytes


def captured() -> Iterator[Exchange]:
    for path in sorted(GOLDEN.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            found = json.loads(line)
            sides = (base64.b64decode(found[side]) for side in ("request", "response"))
            yield Exchange(ApiKey[path.stem.upper()], found["version"], found["client"], *sides)


EXCHANGES = list(captured())
PAIRS = {(exchange.key, exchange.version) for exchange in EXCHANGES}
NAMES = [f"{each.key.name}-{each.version}-{each.client.split()[0]}" for each in EXCHANGES]


@matrix("exchange", EXCHANGES, ids=NAMES)
def test_a_request_is_decoded_and_encoded_to_the_same_bytes(exchange: Exchange) -> None:
    cursor = Cursor(exchange.request)
    api = api_of(exchange.key)
    header = read_header(cursor)
    assert header[:2] == (exchange.key, exchange.version)
    if api.is_flexible(exchange.version):
        skip_tags(cursor)
    begin = cursor.position
    request = decode(api.request, exchange.version, cursor)
    assert cursor.position == len(exchange.request)
    out = bytearray()
    encode(request, exchange.version, out)
    assert out == exchange.request[begin:]


@matrix("exchange", EXCHANGES, ids=NAMES)
def test_a_response_is_decoded_and_encoded_to_the_same_bytes(exchange: Exchange) -> None:
    cursor = Cursor(exchange.response)
    api = api_of(exchange.key)
    correlation_id, response = read_response(api, exchange.version, cursor)
    assert cursor.position == len(exchange.response)
    assert correlation_id == read_header(Cursor(exchange.request)).correlation_id
    out = bytearray()
    encode(response, exchange.version, out)
    assert exchange.response.endswith(bytes(out))


def test_every_version_that_is_advertised_has_bytes() -> None:
    advertised = {
        (key, version)
        for key, served in TABLE.items()
        for version in range(served.versions[0], served.versions[1] + 1)
    }
    assert advertised - PAIRS == set()


def test_every_version_of_the_definitions_has_bytes() -> None:
    """So a handler that comes later needs no new recording."""
    known = {
        (key, version)
        for key in ApiKey
        for version in range(api_of(key).versions[0], api_of(key).versions[1] + 1)
    }
    assert known - PAIRS == set()


def test_several_clients_were_heard() -> None:
    clients = {exchange.client.split()[0] for exchange in EXCHANGES}
    assert clients == {"Apache", "confluent-kafka", "aiokafka", "kafka-python", MADE}


def test_the_files_are_small_and_say_nothing_of_a_machine() -> None:
    for path in GOLDEN.glob("*.jsonl"):
        assert path.stat().st_size <= FILE_BYTES_MAX, path.name
    for exchange in EXCHANGES:
        for side in (exchange.request, exchange.response):
            assert not any(word in side for word in (b"/tmp", b"/root", b"/home", b"/work"))
