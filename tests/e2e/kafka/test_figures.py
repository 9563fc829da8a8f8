"""What an operator sees of clients of Kafka: counters, and lines of failed requests."""

from pathlib import Path

from tests.e2e.kafka.clients import kafka_address
from tests.e2e.rest.client import authorization
from tests.kafka_wire import KafkaWire
from tests.raw_client import connection_to
from tests.server_process import ServerProcess

from opentalos.wire.kafka.apis import ApiKey


def page(server: ServerProcess) -> str:
    connection = connection_to(server.port, None)
    try:
        connection.request("GET", "/metrics", headers=authorization())
        return connection.getresponse().read().decode()
    finally:
        connection.close()


async def test_requests_and_failures_are_counted_and_logged(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path).start()
    try:
        async with KafkaWire(kafka_address(server)) as good:
            await good.plain()
            await good.call(ApiKey.DESCRIBE_CLUSTER, 1)
            async with KafkaWire(kafka_address(server)) as bad:
                assert (await bad.offer("PLAIN", b"\0nobody\0nothing")).error_code == 58
                assert await bad.ended()
            shown = page(server)
        for line in (
            "opentalos_kafka_connections 1.0",
            "opentalos_kafka_connections_accepted_total 2.0",
            'opentalos_kafka_requests_total{request="describe_cluster"} 1.0',
            'opentalos_kafka_requests_total{request="sasl_authenticate"} 2.0',
            'opentalos_kafka_failures_total{error="InvalidCredential"} 1.0',
            "opentalos_kafka_request_bytes 0.0",
        ):
            assert f"\n{line}\n" in shown, line
        assert "request failed" in server.stderr()
        assert "nothing" not in server.stderr(), "a secret is never logged"
    finally:
        server.stop()
