"""Servers of tables without sockets; see fake_servers."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.unit.sdk.fake_servers import COMPACT, FakeServers, thrift_reply

from opentalos.sdk.core.operation import Reply
from opentalos.sdk.core.table.calls import Put
from opentalos.wire._generated import sds
from opentalos.wire.thrift import decode_call, encode_error, encode_reply

SERVICES = {item.path: item for item in (sds.ADMIN_SERVICE, sds.TABLE_SERVICE)}


class Refused(Exception):
    """The server answers with this exception of the protocol."""

    def __init__(self, sent: sds.ServiceException) -> None:
        super().__init__(sent)
        self.sent = sent


def refuses(code: sds.ErrorCode, text: str) -> Callable[[Any], Any]:
    """A handler that always answers so."""

    def handler(_: Any) -> Any:
        raise Refused(sds.ServiceException(errorCode=code, errorMessage=text))

    return handler


def served(write: Any) -> Any:
    """The answer to a put or remove that is done."""
    kind = sds.PutResult if isinstance(write, Put) else sds.RemoveResult
    return kind(success=True)


@dataclass(eq=False)
class FakeTables(FakeServers):
    """A handler gets the one argument of its call, or all of them."""

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Reply:
        parts = urlsplit(url)
        service = SERVICES.get(parts.path)
        if service is None:
            return await super().post(url, headers, body, timeout_s)
        server = f"{parts.scheme}://{parts.netloc}"
        call = decode_call(COMPACT, service, body)
        self.requests.append((server, call.method.name))
        await asyncio.sleep(self.delay_s)
        if self.raw:
            return self.raw.pop(0)
        several = len(call.arguments) > 1
        try:
            given = call.arguments if several else call.request
            result = self.handlers[server][call.method.name](given)
        except Refused as refused:
            return thrift_reply(200, encode_error(COMPACT, call.method, call.seqid, refused.sent))
        return thrift_reply(200, encode_reply(COMPACT, call.method, call.seqid, result))
