"""What an operator sees of clients of Kafka: counters, and lines of failed requests."""

import re
from pathlib import Path

from tests.e2e.kafka.clients import kafka_address
from tests.e2e.rest.client import authorization
from tests.kafka_wire import KafkaWire
from tests.raw_client import connection_to
from tests.server_process import ServerProcess
from tests.waiting import eventually_async

from opentalos.wire.kafka.apis import ApiKey


def page(server: ServerProcess) -> str:
    connection = connection_to(server.port, None)
    try:
        connection.request("GET", "/metrics", headers=authorization())
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def figure(server: ServerProcess, metric: str) -> float:
    """``metric``: its name with its labels, as the page shows them."""
    found = re.search(rf"^{re.escape(metric)} (\S+)$", page(server), re.MULTILINE)
    assert found, metric
    return float(found[1])


EXPECTED = (
    "opentalos_kafka_connections 1.0",
    "opentalos_kafka_connections_accepted_total 2.0",
    'opentalos_kafka_requests_total{request="describe_cluster"} 1.0',
    'opentalos_kafka_requests_total{request="sasl_authenticate"} 2.0',
    'opentalos_kafka_failures_total{error="InvalidCredential"} 1.0',
    "opentalos_kafka_request_bytes 0.0",
)


def missing(server: ServerProcess) -> list[str]:
    """Lines of EXPECTED that the page does not have."""
    shown = page(server)
    return [line for line in EXPECTED if f"\n{line}\n" not in shown]


async def test_requests_and_failures_are_counted_and_logged(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path).start()
    try:
        async with KafkaWire(kafka_address(server)) as good:
            await good.plain()
            await good.call(ApiKey.DESCRIBE_CLUSTER, 1)
            async with KafkaWire(kafka_address(server)) as bad:
                assert (await bad.offer("PLAIN", b"\0nobody\0nothing")).error_code == 58
                assert await bad.ended()
            await eventually_async(
                "the server counts what both clients did",
                lambda: not missing(server),
                state=lambda: f"it lacks {missing(server)}",
            )
        await eventually_async(
            "the server logs the failure", lambda: "request failed" in server.stderr()
        )
        assert "nothing" not in server.stderr(), "a secret is never logged"
    finally:
        server.stop()
