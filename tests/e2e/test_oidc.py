"""Bearer tokens of an issuer that runs: discovery, rotation of its keys, its absence."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.e2e.rest.client import rest
from tests.raw_client import connection_to
from tests.server_process import ServerProcess
from tests.unit.adapters.oidc.issuer import AUDIENCE, Issuer
from tests.waiting import eventually


class IssuerServer(ThreadingHTTPServer):
    """Serves the discovery document and the keys of ``issuer``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = Issuer(f"http://127.0.0.1:{self.server_address[1]}/realm")
        self.issuer.add("first")
        self.fetches = 0


class _Handler(BaseHTTPRequestHandler):
    server: IssuerServer

    def do_GET(self) -> None:
        issuer = self.server.issuer
        documents = {
            "/realm/.well-known/openid-configuration": {
                "issuer": issuer.url,
                "jwks_uri": f"{issuer.url}/keys",
            },
            "/realm/keys": issuer.key_set(),
        }
        self.server.fetches += self.path == "/realm/keys"
        body = json.dumps(documents.get(self.path, {})).encode()
        self.send_response(200 if self.path in documents else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[IssuerServer]:
    running = IssuerServer()
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def server(tmp_path: Path, issuer: IssuerServer) -> Iterator[ServerProcess]:
    config = (
        f'[oidc]\nissuer = "{issuer.issuer.url}"\naudience = "{AUDIENCE}"\n'
        'principal_claim = "email"\norganisation_claim = "org"\ncreate_principals = true\n'
        'algorithms = "RS256 ES256"\nfetch_interval_s = 1\nrefresh_interval_s = 1\n'
    )
    running = ServerProcess(tmp_path, config).start()
    yield running
    running.stop()


def _listed(server: ServerProcess, token: str) -> tuple[int, list[str]]:
    replied = rest(server, "GET", "principals", headers={"Authorization": f"Bearer {token}"})
    return replied.status, [item["id"] for item in replied.document.get("principals", ())]


def _wait_answered(server: ServerProcess, token: str, status: int) -> None:
    """Keys are fetched at intervals."""
    eventually(
        f"the token is answered with {status}",
        lambda: _listed(server, token)[0] == status,
        state=lambda: _listed(server, token),
    )


def _as_browser(server: ServerProcess, cookie: str) -> tuple[int, str]:
    connection = connection_to(server.port, None)
    try:
        connection.request("GET", "/rest/v1/session", headers={"Cookie": cookie})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read()).get("principal", "")
    finally:
        connection.close()


def test_a_token_of_a_real_issuer_is_a_principal_through_rotation_and_absence(
    server: ServerProcess, issuer: IssuerServer
) -> None:
    own = issuer.issuer
    old = own.token("first", email="eve@example", org="CLacme")
    assert _listed(server, old) == (200, ["eve@example"])
    assert _listed(server, own.token("first", email="eve@example", org="CLother"))[0] == 401
    assert _listed(server, own.token("first", email="eve@example", org="CLacme", aud="x"))[0] == 401
    assert rest(server, "GET", "principals/eve@example").document["organisation"] == "CLacme"
    login = rest(server, "POST", "session", headers={"Authorization": f"Bearer {old}"})
    assert (login.status, login.document["session"]["opened_with"]) == (201, "token")
    cookie = login.headers["Set-Cookie"].partition(";")[0]
    assert _as_browser(server, cookie) == (200, "eve@example")

    own.add("second", "ES256")
    new = own.token("second", email="eve@example", org="CLacme")
    _wait_answered(server, new, 200)
    del own.keys["first"]
    _wait_answered(server, old, 401)

    before = issuer.fetches
    made_up = Issuer(own.url)
    made_up.add("made-up", "ES256")
    started_s = time.monotonic()
    for _ in range(50):
        assert _listed(server, made_up.token("made-up", email="root", org=""))[0] == 401
    took_s = time.monotonic() - started_s
    assert issuer.fetches - before <= 2 + took_s, "more than one in [oidc] fetch_interval_s"

    assert _as_browser(server, cookie) == (200, "eve@example"), "its token's key is gone"
    issuer.shutdown()
    issuer.server_close()
    assert _listed(server, new) == (200, ["eve@example"])
