"""What a real server logs: JSON, one line per event, ids of requests, and no secret."""

import base64
import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from tests.raw_client import RawClient, RawTopic, TalosError, connection_to, signed_headers
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import eventually

SECRET_SHOWN = 12  # characters of a secret or signature that must not be in the log


def rest(
    server: ServerProcess, method: str, path: str, document: Any = None, **headers: str
) -> tuple[http.client.HTTPResponse, Any]:
    token = base64.b64encode(f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}".encode()).decode()
    connection = connection_to(server.port, None)
    body = None if document is None else json.dumps(document)
    sent = {"Authorization": f"Basic {token}", "Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    connection.request(method, f"/rest/v1/{path}", body, sent)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    return reply, json.loads(text) if text else None


def events(server: ServerProcess, wanted: int, **fields: object) -> list[dict[str, Any]]:
    """Log events with these fields, once so many are there."""

    def matching() -> list[dict[str, Any]]:
        lines = (server.folder / "server.stderr").read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.startswith("{") and line.endswith("\n")]
        found: list[dict[str, Any]] = [json.loads(line) for line in whole]
        return [item for item in found if fields.items() <= item.items()]

    what = f"the log has {wanted} events with {fields}"
    eventually(what, lambda: len(matching()) >= wanted, state=server.stderr)
    return matching()


def test_a_failed_request_is_found_by_the_id_that_its_caller_has(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, '[server]\nlog_format = "json"\n').start()
    try:
        reply, document = rest(server, "GET", "principals/nobody/keys", X_Request_Id="mine-1")
        assert reply.headers["X-Request-Id"] == "mine-1"
        assert "mine-1" in json.dumps(document)
        (event,) = events(server, 1, request="mine-1")
        assert event["level"] == "info"
        assert event["logger"] == "opentalos.access"
        assert (event["status"], event["error"]) == ("404", "PrincipalNotExist")
        reply, _ = rest(server, "GET", "principals/nobody/keys")
        made = reply.headers["X-Request-Id"]
        assert len(events(server, 1, request=made)) == 1
        client = RawClient(server.port)
        topic = RawTopic.create(client, "t")
        topic.put(b"x")  # a request that succeeds is no line
        with pytest.raises(TalosError):
            topic.put(b"x", partition=9)
        (event,) = events(server, 1, request="00000000", logger="opentalos.access")
        assert event["error"] == "PartitionNotExist"
        assert event["status"] == "200"  # the error is in the body
        client.close()
    finally:
        assert server.stop() == 0


def test_no_secret_is_ever_logged(tmp_path: Path) -> None:
    config = '[server]\nlog_format = "json"\nlog_level = "debug"\n'
    server = ServerProcess(tmp_path, config).start()
    try:
        rest(server, "POST", "principals", {"id": "alice"})
        _, key = rest(server, "POST", "principals/alice/keys")
        rest(server, "GET", "principals?token=in-the-query")
        wrong = base64.b64encode(f"{ROOT_KEY.key_id}:{key['secret']}".encode()).decode()
        rest(server, "GET", "principals", Authorization=f"Basic {wrong}")
        client = RawClient(server.port)
        headers = signed_headers("/v1/api/topic", b"", "application/x-thrift-compact", ROOT_KEY)
        client.send("/v1/api/topic", b"not what was signed", headers)
        RawTopic.create(client, "t").put(b"payload-of-a-message")
        client.close()
        assert len(events(server, 4, logger="opentalos.access", message="request")) >= 4
    finally:
        assert server.stop() == 0
    text = (tmp_path / "server.stderr").read_text()
    signature = headers["Authorization"].rpartition(":")[2]
    for secret in (ROOT_KEY.secret, key["secret"], wrong, signature, "in-the-query", "payload-of"):
        assert secret[:SECRET_SHOWN] not in text
    for line in text.splitlines():
        json.loads(line)
