"""The SDS client repeats a call by itself while a server starts."""

import asyncio
import json
from typing import Any

from tests.compat.conftest import SDS_PROGRAMS, SDS_PYTHON, sdk_environment
from tests.server_process import ROOT_KEY
from tests.waiting import within_limit

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.sds_http.starting import starting_routes
from opentalos.model.limits import HttpLimits
from opentalos.wire._generated.sds import SERVICES
from opentalos.wire.thrift import ThriftProtocol, encode_reply

ADMIN = SERVICES["AdminService"]
BINARY = ThriftProtocol.BINARY
SERVER_TIME_S = 1_700_000_000


class HalfStarted:
    """A server that starts while ``calls`` are made, and serves those after them."""

    def __init__(self, calls: int) -> None:
        self.calls, self.asked = calls, 0
        self._starting = starting_routes()[ADMIN.path.encode()]

    def __call__(self, exchange: Exchange) -> None:
        self.asked += 1
        if self.asked <= self.calls:
            self._starting(exchange)
            return
        body = encode_reply(BINARY, ADMIN.methods["getServerTime"], 0, SERVER_TIME_S)
        exchange.reply(head(200, BINARY.value.encode()), body)


async def _ask(server: HalfStarted) -> tuple[str, str]:
    """What the client's program says and complains of."""
    http = HttpServer(HttpLimits(), {ADMIN.path.encode(): server})
    port = await http.listen("127.0.0.1", 0)
    arguments: dict[str, Any] = {
        "url": f"http://127.0.0.1:{port}", "key_id": ROOT_KEY.key_id, "secret": ROOT_KEY.secret,
    }  # fmt: skip
    program = await asyncio.create_subprocess_exec(
        str(SDS_PYTHON), str(SDS_PROGRAMS / "table_starting.py"), json.dumps(arguments),
        env=sdk_environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with within_limit("the program of the client ends"):
            said, complaints = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
        await http.drain(0.0)
    return said.decode(), complaints.decode()


async def test_the_client_repeats_what_a_starting_server_refuses() -> None:
    server = HalfStarted(calls=1)
    said, complaints = await _ask(server)
    assert said, complaints
    assert json.loads(said) == {"time": SERVER_TIME_S}
    assert server.asked == 2


async def test_the_client_gives_up_after_one_repetition_and_says_500() -> None:
    server = HalfStarted(calls=9)
    said, complaints = await _ask(server)
    assert not said
    assert "httpStatusCode=500" in complaints
    assert server.asked == 2
