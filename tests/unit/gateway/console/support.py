"""A browser of the console over a whole broker, without sockets."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.unit.gateway.rest.support import Rest, rest
from tests.waiting import within_limit

from opentalos.gateway.console.gateway import ConsoleGateway
from opentalos.gateway.http.exchange import Exchange
from opentalos.model.settings.console import ConsoleSettings

FORM = b"application/x-www-form-urlencoded"


class Reply(NamedTuple):
    """What the browser got."""

    status: int
    text: str
    lines: str

    @property
    def place(self) -> str:
        """Where it is sent."""
        found = re.search(r"Location: ([^\r]*)", self.lines)
        return found.group(1) if found else ""

    @property
    def words(self) -> str:
        """The text of the page without tags; names are whole."""
        whole = re.sub(r'<wbr>|<span class="long"[^>]*>([^<]*)</span>', r"\1", self.text)
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", whole)).split())


@dataclass
class Browser:
    """Keeps cookies, and sends forms as a browser does."""

    rest: Rest
    console: ConsoleGateway
    cookies: dict[str, str] = field(default_factory=dict)
    network: str = "192.0.2.1"

    async def get(self, path: str = "/console/", **headers: str) -> Reply:
        return await self.send("GET", path, headers)

    async def submit(self, path: str, fields: Mapping[str, str], proof: str | None = None) -> Reply:
        """Send a form of the page at this path, with the proof that it contains."""
        if proof is None:
            found = re.search(r'name="csrf" value="([^"]*)"', (await self.get(path)).text)
            proof = found.group(1) if found else ""
        body = urlencode({"csrf": proof, **fields}).encode()
        return await self.send("POST", path, {}, body)

    async def log_in(self, key_id: str, secret: str, path: str = "/console/login") -> Reply:
        body = urlencode({"key_id": key_id, "secret": secret}).encode()
        return await self.send("POST", path, {}, body)

    async def as_user(self, name: str, **fields: Any) -> "Browser":
        """Another browser, with a login as a new user."""
        root = self.rest.world.broker.catalogs.principals.get("root")
        assert root is not None
        principals = self.rest.world.broker.principals
        await principals.create(root, name, **fields)
        key = await principals.create_key(root, name)
        browser = Browser(self.rest, self.console)
        assert (await browser.log_in(key.key_id, key.secret)).status == 303
        return browser

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Reply:
        loop = asyncio.get_running_loop()
        replied: asyncio.Future[Reply] = loop.create_future()

        def answer(exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
            text = body.decode("utf-8", "replace")
            replied.set_result(Reply(int(prefix.split()[1]), text, (prefix + extra).decode()))

        connection: Any = SimpleNamespace(
            answer=answer, alive=True, secure=False, certificate=None, private=True,
            peer=self.network, network=self.network, extend=lambda seconds, waits=False: None,
        )  # fmt: skip
        sent = {
            b"host": b"console.test",
            b"sec-fetch-site": b"same-origin",
            b"accept": b"text/html",
            **{name.lower().replace("_", "-").encode(): v.encode() for name, v in headers.items()},
        }
        if self.cookies:
            pairs = (f"{name}={value}" for name, value in self.cookies.items())
            sent[b"cookie"] = "; ".join(pairs).encode()
        if method == "POST":
            sent[b"content-type"] = FORM
        exchange = Exchange(connection, method.encode(), path.encode(), sent)
        exchange.body = body
        for prefix, handler in self.console.prefix_routes():
            if exchange.path.startswith(prefix):
                handler(exchange)
                break
        async with within_limit("the console answers"):
            reply = await replied
        for name, value in re.findall(r"Set-Cookie: ([^=]*)=([^;]*)", reply.lines):
            self.cookies[name] = value
            if not value:
                del self.cookies[name]
        return reply


@asynccontextmanager
async def browser(
    broker: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Browser]:
    """A browser with a login as administrator, on a started broker with these settings."""
    async with rest(**broker or {}) as client:
        console = ConsoleGateway(
            client.gateway.serve, ConsoleSettings(enabled=True, **settings), "server-1"
        )
        found = Browser(client, console)
        assert (await found.log_in("AKROOT", "root-secret")).status == 303
        yield found
