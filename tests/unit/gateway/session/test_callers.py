"""Logins with a bearer token and with a client certificate: sessions that end with them."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Replied, Rest, exchanged, rest

from opentalos.broker.admin.certificate_principals import CertificatePrincipals
from opentalos.broker.admin.token_principals import TokenPrincipals
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.rest.token_callers import TokenCallers
from opentalos.gateway.session.callers import Callers
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import PeerCertificate, TokenIdentity, parse_rules
from opentalos.model.settings.security import AuthLimits

LEFT_S = 600  # of the token or certificate; less than a session's time
URL = "/rest/v1/session"
ALICE = ("cn", "alice")


class Verifier:
    """A token is the name of its bearer; ``expires_s`` is that of all of them."""

    def __init__(self, expires_s: float) -> None:
        self.expires_s, self.prepared = expires_s, set[str]()

    async def ready(self, token: str) -> None:
        self.prepared.add(token)

    def verify(self, token: str) -> TokenIdentity:
        if token not in self.prepared or token.startswith("wrong"):
            raise InvalidCredential("invalid token: not one of the issuer")
        return TokenIdentity(token.partition(".")[0], None, self.expires_s)


@pytest.fixture
async def call() -> AsyncIterator[Rest]:
    async with rest() as made:
        # Whether a certificate is over is up to the machine's clock.
        made.world.clock.now_ms = int(time.time() * 1_000)
        yield made


@pytest.fixture
def gateway(call: Rest) -> RestGateway:
    broker = call.world.broker
    directory = broker.catalogs.principals
    certificates = CertificatePrincipals(directory, parse_rules("cn=*"))
    authenticator = Authenticator(broker.principals, AuthLimits(), certificates)
    expires_s = call.world.clock.now_ms / 1_000 + LEFT_S
    tokens = TokenCallers(
        Verifier(expires_s), TokenPrincipals(directory, create=False), authenticator
    )
    return RestGateway(broker, Callers(authenticator, broker.sessions, tokens))


Send = Callable[..., Any]


@pytest.fixture
def send(gateway: RestGateway) -> Send:
    async def one(
        method: str, headers: Mapping[str, str], url: str = URL, **of_connection: Any
    ) -> Replied:
        sent = {name.encode(): value.encode() for name, value in headers.items()}
        sent.setdefault(b"sec-fetch-site", b"same-origin")
        return await exchanged(gateway, method, url, sent, b"", **of_connection)

    return one


def shown(*names: tuple[str, str], left_s: float = LEFT_S) -> PeerCertificate:
    return PeerCertificate(names, time.time() + left_s)


def cookie_of(replied: Replied) -> dict[str, str]:
    return {"cookie": replied.headers["Set-Cookie"].partition(";")[0]}


async def test_a_token_opens_a_session_that_does_not_outlive_it(call: Rest, send: Send) -> None:
    made = await send("POST", {"authorization": "Bearer alice.b.c"})
    assert (made.status, made.document["principal"]) == (201, "alice")
    session = made.document["session"]
    assert session["opened_with"] == "token"
    assert session["ends_ms"] == call.world.clock.now_ms + LEFT_S * 1_000
    cookie = cookie_of(made)
    assert (await send("GET", cookie)).document["principal"] == "alice", "without the token"
    assert (await send("DELETE", cookie)).status == 403, "without the proof"
    call.world.clock.now_ms = session["ends_ms"] - 1
    assert (await send("GET", cookie)).status == 200
    call.world.clock.now_ms += 1
    assert (await send("GET", cookie)).status == 401


async def test_a_tokens_session_ends_with_its_principal(call: Rest, send: Send) -> None:
    cookie = cookie_of(await send("POST", {"authorization": "Bearer alice.b.c"}))
    assert (await call("PATCH", "principals/alice", {"disabled": True})).status == 200
    assert (await send("GET", cookie)).status == 401
    assert (await send("POST", {"authorization": "Bearer alice.b.c"})).status == 401


async def test_a_wrong_token_or_one_that_others_can_read_opens_none(send: Send) -> None:
    for token, private in (("wrong.b.c", True), ("nobody.b.c", True), ("alice.b.c", False)):
        headers = {"authorization": f"Bearer {token}"}
        replied = await send("POST", headers, private=private)
        assert replied.status == 401
        assert "Set-Cookie" not in replied.headers


async def test_a_certificate_opens_a_session_that_does_not_outlive_it(
    call: Rest, send: Send
) -> None:
    certificate = shown(ALICE)
    made = await send("POST", {}, secure=True, certificate=certificate)
    assert (made.status, made.document["principal"]) == (201, "alice")
    session = made.document["session"]
    assert session["opened_with"] == "certificate"
    assert session["ends_ms"] == int(certificate.expires_s * 1_000)
    cookie = cookie_of(made)
    assert cookie["cookie"].startswith("__Host-")
    found = await send("GET", cookie, secure=True)
    assert found.document["principal"] == "alice", "on a connection without a certificate"
    call.world.clock.now_ms = session["ends_ms"]
    assert (await send("GET", cookie, secure=True)).status == 401


async def test_a_certificate_without_a_principal_or_over_opens_none(send: Send) -> None:
    for certificate in (shown(("cn", "nobody")), shown(ALICE, left_s=-1), shown(("dns", "alice"))):
        replied = await send("POST", {}, secure=True, certificate=certificate)
        assert replied.status == 401
        assert "Set-Cookie" not in replied.headers


async def test_another_site_opens_none_with_a_browsers_certificate(send: Send) -> None:
    headers = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
    replied = await send("POST", headers, secure=True, certificate=shown(ALICE))
    assert replied.status == 403
    assert "Set-Cookie" not in replied.headers


async def test_a_header_and_a_cookie_count_before_the_certificate(call: Rest, send: Send) -> None:
    await call.user("bob")
    certificate = shown(ALICE)
    token = {"authorization": "Bearer bob.b.c"}
    made = await send("POST", token, secure=True, certificate=certificate)
    assert made.document["session"]["opened_with"] == "token"
    for headers, principal in ((cookie_of(made), "bob"), ({}, "alice")):
        found = await send("GET", headers, secure=True, certificate=certificate)
        assert found.document["principal"] == principal
