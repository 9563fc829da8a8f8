"""Sessions of browsers: logged in with a key, ended with it, and of no use to other sites."""

import base64
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Replied, Rest, exchanged

from opentalos.broker.admin.sessions import Opener
from opentalos.broker.audit.trail import Origin
from opentalos.catalog.principals.ended_sessions import SESSIONS_MAX
from opentalos.model.errors import InvalidCredential
from opentalos.wire.metrics.audit_event import AuditEvent

HOUR_MS = 3_600_000
LONGEST_MS = 12 * HOUR_MS
IDLE_MS = HOUR_MS // 2
TOPIC = {"name": "t1", "partitions": 1}


@dataclass
class Browser:
    """Keeps the cookie that it is given, as a page of the server itself."""

    call: Rest
    cookie: str = ""
    proof: str = ""

    async def __call__(
        self, method: str, path: str, document: Any = None, **headers: str
    ) -> Replied:
        sent = {"sec-fetch-site": "same-origin", "cookie": self.cookie}
        if self.proof and method != "GET":
            sent["x-csrf-token"] = self.proof
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        replied = await self.call(method, path, document, by="", headers=sent)
        if "Set-Cookie" in replied.headers:
            self.cookie = replied.headers["Set-Cookie"].partition(";")[0]
        return replied

    async def log_in(self, name: str) -> Replied:
        pair = base64.b64decode(self.call.tokens[name]).decode()
        key_id, _, secret = pair.partition(":")
        replied = await self("POST", "session", {"key_id": key_id, "secret": secret})
        assert replied.status == 201
        self.proof = replied.document["session"]["csrf_token"]
        return replied


@pytest.fixture
async def browser(call: Rest) -> Browser:
    made = Browser(call)
    await made.log_in("alice")
    return made


def _audited(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    events = [vars(record)["audit"] for record in caplog.records if hasattr(record, "audit")]
    return [(event["action"], event["principal"], event["outcome"]) for event in events]


async def test_a_login_sets_a_cookie_that_scripts_and_other_sites_cannot_use(call: Rest) -> None:
    replied = await Browser(call).log_in("alice")
    cookie = replied.headers["Set-Cookie"]
    assert cookie.startswith("opentalos_session=v1.")
    for rule in ("Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=1800"):
        assert rule in cookie.split("; ")
    assert "Secure" not in cookie  # the connection of this test has no TLS
    shown = replied.document
    assert (shown["principal"], shown["role"]) == ("alice", "user")
    assert shown["session"]["opened_with"] == "key"


async def test_a_session_acts_as_its_principal_and_needs_the_proof_to_change(
    browser: Browser,
) -> None:
    assert (await browser("GET", "session")).document["principal"] == "alice"
    assert (await browser("POST", "topics", TOPIC)).status == 201
    for proof in ("", "0" * 64):
        refused = await browser("DELETE", "topics/t1", x_csrf_token=proof)
        assert (refused.status, "X-CSRF-Token" in refused.document["detail"]) == (403, True)
    assert (await browser("GET", "topics/t1")).status == 200
    assert (await browser("DELETE", "topics/t1")).status == 204


async def test_the_proof_of_one_session_is_none_of_another(call: Rest, browser: Browser) -> None:
    other = Browser(call)
    await other.log_in("alice")
    refused = await browser("POST", "topics", TOPIC, x_csrf_token=other.proof)
    assert refused.status == 403


async def test_a_page_of_another_site_can_neither_use_a_session_nor_open_one(
    call: Rest, browser: Browser
) -> None:
    for site in ("cross-site", "same-site"):
        assert (await browser("GET", "session", sec_fetch_site=site)).status == 403
        document = {"key_id": "AKROOT", "secret": "root-secret"}
        login = await Browser(call)("POST", "session", document, sec_fetch_site=site)
        assert (login.status, "Set-Cookie" in login.headers) == (403, False)


async def test_an_authorization_header_decides_alone(browser: Browser) -> None:
    key = "Basic " + browser.call.tokens["root"].decode()
    shown = (await browser("GET", "session", authorization=key)).document
    assert (shown["principal"], shown["session"]) == ("root", None)
    assert (await browser("GET", "session", authorization="Basic eDp5")).status == 401
    assert (await browser("DELETE", "session", authorization=key)).status == 404


async def test_a_logout_ends_one_session_for_good(
    call: Rest, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    other, cookie = Browser(call), browser.cookie
    await other.log_in("alice")
    caplog.set_level("INFO", "opentalos.audit")
    replied = await browser("DELETE", "session")
    assert (replied.status, "Max-Age=0" in replied.headers["Set-Cookie"]) == (204, True)
    assert (await browser("GET", "session", cookie=cookie)).status == 401
    assert (await other("GET", "session")).status == 200
    assert ("log out", "alice", "done") in _audited(caplog)


async def test_many_logouts_take_one_record_and_none_comes_back(call: Rest) -> None:
    cookies = []
    for _ in range(SESSIONS_MAX + 3):
        call.world.clock.now_ms += 1
        browser = Browser(call)
        await browser.log_in("root")
        cookies.append(browser.cookie)
        assert (await browser("DELETE", "session")).status == 204
    records = [path for path in call.world.storage.records if path.startswith("ended-sessions")]
    assert len(records) == 1
    for cookie in cookies:
        assert (await Browser(call, cookie)("GET", "session")).status == 401
    call.world.clock.now_ms += 1
    later = Browser(call)
    await later.log_in("root")
    assert (await later("GET", "session")).status == 200


async def test_a_session_ends_with_its_key_and_its_principal(call: Rest, browser: Browser) -> None:
    for disabled, status in ((True, 401), (False, 200)):
        await call("PATCH", "principals/alice", {"disabled": disabled})
        assert (await browser("GET", "session")).status == status
    keys = (await call("GET", "principals/alice/keys")).document["keys"]
    await call("DELETE", f"keys/{keys[0]['key_id']}")
    assert (await browser("GET", "session")).status == 401


async def test_a_session_has_the_limits_of_its_key(call: Rest) -> None:
    limits = {"scopes": ["describe"], "addresses": ["192.0.2.0/24"]}
    key = (await call("POST", "principals/alice/keys", limits)).document
    call.tokens["limited"] = base64.b64encode(f"{key['key_id']}:{key['secret']}".encode())
    browser = Browser(call)
    await browser.log_in("limited")
    assert (await browser("POST", "topics", TOPIC)).status == 403
    sessions = call.world.broker.sessions
    with pytest.raises(InvalidCredential, match="may not be used from"):
        sessions.find(browser.cookie.partition("=")[2], "198.51.100.1")


async def test_a_session_expires_with_its_key(call: Rest) -> None:
    expires_ms = call.world.clock.now_ms + 1_000
    key = (await call("POST", "principals/alice/keys", {"expires_ms": expires_ms})).document
    broker = call.world.broker
    live = broker.principals.key(key["key_id"])
    assert live is not None
    session = await broker.sessions.open(live.principal, Opener.KEY, key_id=key["key_id"])
    text = broker.sessions.text(session)
    assert broker.sessions.find(text, "").principal.id == "alice"
    call.world.clock.now_ms = expires_ms
    with pytest.raises(InvalidCredential, match="expired"):
        broker.sessions.find(text, "")


async def test_a_session_is_no_longer_valid_than_the_token_that_opened_it(call: Rest) -> None:
    broker, clock = call.world.broker, call.world.clock
    alice = broker.catalogs.principals.get("alice")
    assert alice is not None
    ends_ms = clock.now_ms + 60_000
    session = await broker.sessions.open(alice, Opener.TOKEN, ends_ms=ends_ms)
    text = broker.sessions.text(session)
    assert broker.sessions.find(text, "").principal == alice
    clock.now_ms = ends_ms
    with pytest.raises(InvalidCredential):
        broker.sessions.find(text, "")


async def test_a_session_ends_when_the_secret_of_its_key_changes(call: Rest) -> None:
    browser = Browser(call)
    await browser.log_in("root")
    await call.world.broker.principals.ensure_root("AKROOT", "another-secret-of-root")
    assert (await browser("GET", "session")).status == 401


async def test_a_session_ends_when_unused_and_at_the_latest_after_its_time(
    call: Rest, browser: Browser
) -> None:
    clock = call.world.clock
    start_ms, first = clock.now_ms, browser.cookie
    clock.now_ms += IDLE_MS // 2 - 1
    assert "Set-Cookie" not in (await browser("GET", "session")).headers
    clock.now_ms += 1
    replied = await browser("GET", "session")
    assert "Set-Cookie" in replied.headers
    assert replied.document["session"]["idle_ends_ms"] == clock.now_ms + IDLE_MS
    clock.now_ms = start_ms + IDLE_MS
    assert (await browser("GET", "session", cookie=first)).status == 401
    while clock.now_ms < start_ms + LONGEST_MS:
        assert (await browser("GET", "session")).status == 200
        clock.now_ms += IDLE_MS // 2
    assert (await browser("GET", "session")).status == 401


async def test_what_was_changed_in_a_cookie_is_no_session(browser: Browser) -> None:
    name, _, token = browser.cookie.partition("=")
    version, payload, signature = token.split(".")
    forged = base64.urlsafe_b64encode(
        base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).replace(b"alice", b"root")
    ).decode()
    for text in ("", "v1", "v1..", f"v2.{payload}.{signature}", f"{version}.{forged}.{signature}"):
        assert (await browser("GET", "session", cookie=f"{name}={text}")).status == 401
    assert (await browser("GET", "session", cookie=f"a=b; {name}={token}; c")).status == 200


async def test_logins_are_audited_and_wrong_secrets_limited(
    call: Rest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "opentalos.audit")
    raw: list[bytes] = []
    call.world.broker.context.audit.connect(raw.append, Origin)
    await Browser(call).log_in("alice")
    keys = (await call("GET", "principals/alice/keys")).document["keys"]
    wrong = {"key_id": keys[0]["key_id"], "secret": "x" * 20}
    assert (await Browser(call)("POST", "session", wrong)).status == 401
    assert (await Browser(call)("POST", "session", {"key_id": "a-secret"})).status == 401
    assert (await Browser(call)("POST", "session")).status == 401
    events = [AuditEvent.decode(event) for event in raw]
    assert [(event.action, event.resource, event.outcome) for event in events] == [
        ("log in", "alice", "done"),
        ("authenticate", "alice", "failed"),
        ("authenticate", "", "failed"),
    ]
    assert b"a-secret" not in b"".join(raw)
    statuses = [(await Browser(call)("POST", "session", wrong)).status for _ in range(60)]
    assert statuses[-1] == 429
    assert len(raw) == 3, "the others of this minute are only counted"


async def test_a_restart_keeps_sessions_signed_with_the_key_of_the_server(call: Rest) -> None:
    world = call.world
    world.config = replace(world.config, session_key=b"k" * 32)
    broker = await world.restart()
    root = broker.catalogs.principals.get("root")
    assert root is not None
    session = await broker.sessions.open(root, Opener.KEY, key_id="AKROOT")
    text = broker.sessions.text(session)
    broker = await world.restart()
    assert broker.sessions.find(text, "").principal == root
    await broker.sessions.end(session)
    broker = await world.restart()
    with pytest.raises(InvalidCredential):
        broker.sessions.find(text, "")


async def test_over_tls_the_cookie_is_for_this_host_alone(call: Rest) -> None:
    body = b'{"key_id": "AKROOT", "secret": "root-secret"}'
    sent = {b"content-type": b"application/json"}
    url = "/rest/v1/session"
    replied = await exchanged(call.gateway, "POST", url, sent, body, secure=True)
    cookie = replied.headers["Set-Cookie"]
    assert cookie.startswith("__Host-opentalos_session=")
    assert cookie.endswith("; Secure")
    pair = cookie.partition(";")[0].encode()
    planted = pair.removeprefix(b"__Host-")
    for value, status in ((pair, 200), (planted, 401)):
        headers = {b"cookie": value}
        found = await exchanged(call.gateway, "GET", url, headers, b"", secure=True)
        assert found.status == status


async def test_a_session_that_others_can_read_on_its_way_is_refused(browser: Browser) -> None:
    headers, url = {b"cookie": browser.cookie.encode()}, "/rest/v1/session"
    gateway = browser.call.gateway
    assert (await exchanged(gateway, "GET", url, headers, b"", private=False)).status == 401
