"""The page at /docs has all its files from this server, and its policy allows no other."""

import gzip
import http.client
import json
import re
from collections.abc import Mapping

import pytest
from tests.waiting import limit_s

from opentalos.testing import EmbeddedServer


def get(
    server: EmbeddedServer, path: str, method: str = "GET"
) -> tuple[int, bytes, Mapping[str, str]]:
    connection = http.client.HTTPConnection(
        "127.0.0.1", int(server.url.rpartition(":")[2]), timeout=limit_s()
    )
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.read(), dict(reply.headers)
    finally:
        connection.close()


def test_the_page_and_all_that_it_names_are_served_to_everybody() -> None:
    with EmbeddedServer() as server:
        status, page, headers = get(server, "/docs")
        assert status == 200
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        named = re.findall(r'(?:src|href)="(/[^"]+)"', page.decode())
        assert len(named) == 4
        contents = {}
        for path in named:
            status, content, headers = get(server, path)
            assert status == 200, path
            if headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            contents[path.rpartition("/")[2]] = content
    assert b"SwaggerUIBundle" in contents["swagger-ui-bundle.js"]
    assert b".swagger-ui" in contents["swagger-ui.css"]
    assert b'"/rest/v1/openapi.json"' in contents["start.js"]
    assert json.loads(contents["openapi.json"])["openapi"].startswith("3.1")
    assert b"<script>" not in page  # the policy would refuse it
    assert not re.search(rb"https?://", page)


@pytest.mark.parametrize("path", ["/docs", "/docs/start.js"])
def test_it_can_only_be_read(path: str) -> None:
    with EmbeddedServer() as server:
        status, content, headers = get(server, path, "HEAD")
        assert (status, content) == (200, b"")
        assert get(server, path, "POST")[0] == 405
        assert int(headers["Content-Length"]) > 0
