"""A session against a real server: what a page of the server itself would do with it."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.e2e.rest.client import Listening, authorization
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.waiting import limit_s


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path)
    process.start()
    yield process
    process.kill()


def sent(
    server: Listening, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, str]:
    """One call: status, document or text, and the cookie that the reply sets."""
    named = {name.replace("_", "-"): value for name, value in headers.items() if value}
    if body is not None and "content-type" not in named:
        body, named["content-type"] = json.dumps(body), "application/json"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    try:
        connection.request(method, path, body, named)
        reply = connection.getresponse()
        text = reply.read().decode()
        cookie = reply.headers.get("Set-Cookie", "").partition(";")[0]
        is_json = "json" in reply.headers.get("Content-Type", "")
        return reply.status, json.loads(text) if is_json and text else text, cookie
    finally:
        connection.close()


def logged_in(server: Listening, key: Key) -> tuple[str, str]:
    """Cookie and proof of a new session."""
    document = {"key_id": key.key_id, "secret": key.secret}
    status, shown, cookie = sent(server, "POST", "/rest/v1/session", document)
    assert status == 201
    return cookie, shown["session"]["csrf_token"]


def test_a_session_changes_things_until_its_key_is_disabled(server: ServerProcess) -> None:
    root = authorization()["Authorization"]
    new = {"id": "alice"}
    assert sent(server, "POST", "/rest/v1/principals", new, authorization=root)[0] == 201
    path = "/rest/v1/principals/alice/keys"
    issued = sent(server, "POST", path, authorization=root)[1]
    cookie, proof = logged_in(server, Key(issued["key_id"], issued["secret"]))
    topic, topics = {"name": "t1", "partitions": 1}, "/rest/v1/topics"
    assert sent(server, "POST", topics, topic, cookie=cookie)[0] == 403
    assert sent(server, "POST", topics, topic, cookie=cookie, x_csrf_token=proof)[0] == 201
    # The protocols of Talos and SDS know no cookies.
    thrift = "application/x-thrift"
    for service in ("topic", "message", "table", "admin", "auth"):
        called = sent(
            server, "POST", f"/v1/api/{service}", "x", cookie=cookie, content_type=thrift,
            x_csrf_token=proof,
        )  # fmt: skip
        assert called[0] == 401, service
    server.stop()
    server.start()
    shown = sent(server, "GET", "/rest/v1/session", cookie=cookie)
    assert (shown[0], shown[1]["principal"]) == (200, "alice")
    key = f"/rest/v1/keys/{issued['key_id']}"
    assert sent(server, "DELETE", key, authorization=root)[0] == 204
    assert sent(server, "GET", "/rest/v1/session", cookie=cookie)[0] == 401


def test_a_logout_outlives_a_restart(server: ServerProcess) -> None:
    cookie, proof = logged_in(server, ROOT_KEY)
    path = "/rest/v1/session"
    assert sent(server, "DELETE", path, cookie=cookie)[0] == 403
    assert sent(server, "DELETE", path, cookie=cookie, x_csrf_token=proof)[0] == 204
    assert sent(server, "GET", path, cookie=cookie)[0] == 401
    server.stop()
    server.start()
    assert sent(server, "GET", path, cookie=cookie)[0] == 401


def test_the_status_page_has_a_form_and_curl_needs_none(server: ServerProcess) -> None:
    status, page, _ = sent(server, "GET", "/", accept="text/html")
    assert (status, 'method="post"' in page) == (401, True)
    form = urlencode({"key_id": ROOT_KEY.key_id, "secret": ROOT_KEY.secret})
    kind = "application/x-www-form-urlencoded"
    status, _, cookie = sent(server, "POST", "/", form, content_type=kind)
    assert (status, cookie.startswith("opentalos_session=")) == (303, True)
    for headers in ({"cookie": cookie}, authorization()):
        named = {name.lower(): value for name, value in headers.items()}
        status, page, _ = sent(server, "GET", "/", **named)
        assert (status, "as root sees it" in page) == (200, True)
