"""TalosBaseService: the version calls that every service inherits."""

import re
from typing import Final

import opentalos
from opentalos.broker.broker import Broker
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.model.identity import Principal
from opentalos.wire._generated import common


def _version() -> common.Version:
    numbers = [int(digits) for digits in re.findall(r"\d+", opentalos.__version__)]
    major, minor, revision, *_ = [*numbers, 0, 0, 0]
    return common.Version(
        major=major, minor=minor, revision=revision, details=f"opentalos {opentalos.__version__}"
    )


async def get_service_version(
    _: Broker, __: Principal, ___: None, ____: CallContext
) -> common.Version:
    """Version of this server."""
    return _version()


async def valid_client_version(
    _: Broker, __: Principal, ___: common.Version, ____: CallContext
) -> None:
    """Every client version is served."""


HANDLERS: Final[dict[str, Handler]] = {
    "getServiceVersion": get_service_version,
    "validClientVersion": valid_client_version,
}
