"""BaseService: what every service answers about itself."""

import time
from typing import Any, Final

import opentalos
from opentalos.gateway.sds_http.handlers.context import Handler, Services
from opentalos.model.identity import Principal
from opentalos.wire._generated import sds


async def get_server_version(_: Services, __: Principal, ___: tuple[Any, ...]) -> sds.Version:
    """Version of the protocol; the comment has the server's."""
    return sds.Version(comments=f"opentalos {opentalos.__version__}")


async def validate_client_version(_: Services, __: Principal, ___: tuple[Any, ...]) -> None:
    """Every client version is served."""


async def get_server_time(_: Services, __: Principal, ___: tuple[Any, ...]) -> int:
    """Unix time in seconds."""
    return int(time.time())


HANDLERS: Final[dict[str, Handler]] = {
    "getServerVersion": get_server_version,
    "validateClientVersion": validate_client_version,
    "getServerTime": get_server_time,
}
