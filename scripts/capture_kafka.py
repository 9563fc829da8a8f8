"""Write tests/golden/kafka: what clients and a real Kafka say, in every version of every request.

    python -m scripts.capture_kafka

Starts a Kafka, lets each client work through a recording proxy several times, each time shown
fewer versions, and adds requests made by kio where no client speaks a version. Takes minutes.
"""

import base64
import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from scripts.kafka_capture import clients, every_version
from scripts.kafka_capture.real import ALICE, RecordedKafka
from scripts.kafka_capture.recorder import Exchange, Proxy, Recorder

from opentalos.wire.kafka.apis import ApiKey

OUTPUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "kafka"
PORTS = (9092, 9093)
ABOVE_FIRST = (None, 11, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)  # versions that clients are shown
CLIENTS_MAX = 2  # of which a version keeps bytes
LIKED_BYTES_MAX = 900  # the longest up to this length says most
MADE = f"kio {version('kio')}"


def record(recorder: Recorder, kafka: RecordedKafka, proxies: tuple[Proxy, Proxy]) -> None:
    """All clients, then all versions."""
    plain, sasl = proxies
    every_version.warm(plain.target)
    recorder.client = "Apache Kafka 4.3.1 (Java)"
    clients.java(kafka, plain.address, kafka.home)
    for above in ABOVE_FIRST:
        recorder.above_first = above
        for name in clients.PYTHON:
            print(f"{name}, {above} versions above the first", flush=True)
            recorder.client = name
            clients.run(name, plain.address, clients.ALL if above is None else str(above))
    recorder.client, recorder.above_first = MADE, None
    every_version.speak(plain.port)
    every_version.authenticate(sasl.port, *ALICE)


def chosen(exchanges: list[Exchange]) -> Iterator[Exchange]:
    """Of each version the best ones of some clients; kio's where there is no other."""
    found: dict[tuple[ApiKey, int], dict[str, Exchange]] = defaultdict(dict)
    for exchange in exchanges:
        by_client = found[exchange.key, exchange.version]
        best = by_client.get(exchange.client)
        if best is None or worth(exchange) > worth(best):
            by_client[exchange.client] = exchange
    for _, by_client in sorted(found.items()):
        real = [each for name, each in by_client.items() if name != MADE]
        yield from real[:CLIENTS_MAX] or by_client.values()


def worth(exchange: Exchange) -> int:
    """More is better: long, but not too long."""
    size = len(exchange.request) + len(exchange.response)
    return size if size <= LIKED_BYTES_MAX else LIKED_BYTES_MAX - size


def text(exchange: Exchange) -> str:
    """One line."""
    return json.dumps(
        {
            "version": exchange.version,
            "client": exchange.client,
            "request": base64.b64encode(exchange.request).decode(),
            "response": base64.b64encode(exchange.response).decode(),
        }
    )


def write(exchanges: list[Exchange]) -> None:
    """One file per request."""
    lines: dict[ApiKey, list[str]] = defaultdict(list)
    for exchange in chosen(exchanges):
        lines[exchange.key].append(text(exchange))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for key, found in lines.items():
        (OUTPUT / f"{key.name.lower()}.jsonl").write_text("\n".join(found) + "\n")


def main() -> int:
    """Record and write."""
    recorder = Recorder()
    proxies = Proxy(recorder, PORTS[0]), Proxy(recorder, PORTS[1])
    homes = Path(tempfile.mkdtemp(prefix="capture-"))
    kafka = RecordedKafka(homes, PORTS)
    try:
        kafka.start(print, port=0)
        proxies[0].target, proxies[1].target = kafka.ports["client"], kafka.ports["sasl"]
        record(recorder, kafka, proxies)
    finally:
        kafka.stop(print)
        for proxy in proxies:
            proxy.close()
        shutil.rmtree(homes, ignore_errors=True)
    write(recorder.exchanges)
    return 0


if __name__ == "__main__":
    sys.exit(main())
