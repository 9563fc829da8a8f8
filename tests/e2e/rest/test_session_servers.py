"""A session in a cluster: every server knows it, and a logout on one ends it on all."""

import asyncio
from functools import partial

from tests.e2e.memory_cluster import MemoryServer, memory_cluster
from tests.e2e.rest.test_sessions import logged_in, sent
from tests.server_process import ROOT_KEY
from tests.waiting import eventually_async

PATH = "/rest/v1/session"


async def called(
    server: MemoryServer, method: str, cookie: str, proof: str = ""
) -> tuple[int, str]:
    """Status, and who the caller is."""
    found = await asyncio.to_thread(sent, server, method, PATH, cookie=cookie, x_csrf_token=proof)
    return found[0], found[1].get("principal", "") if isinstance(found[1], dict) else ""


async def is_refused(server: MemoryServer, cookie: str) -> bool:
    return (await called(server, "GET", cookie))[0] == 401


async def test_a_cookie_of_one_server_is_valid_on_all_until_a_logout_on_any() -> None:
    async with memory_cluster() as servers:
        cookie, proof = await asyncio.to_thread(logged_in, servers[0], ROOT_KEY)
        other, _ = await asyncio.to_thread(logged_in, servers[1], ROOT_KEY)
        for server in servers:
            assert await called(server, "GET", cookie) == (200, "root")
        assert (await called(servers[1], "DELETE", cookie, proof))[0] == 204
        assert (await called(servers[1], "GET", cookie))[0] == 401
        for server in servers:
            what = f"the logout holds on {server.name}"
            await eventually_async(what, partial(is_refused, server, cookie))
        for server in servers:
            assert await called(server, "GET", other) == (200, "root"), "another login"
