"""What a starting server answers, in the form that each client repeats by itself."""

from typing import Any

import pytest
from tests.unit.gateway.sds_http.support import BINARY, Connection

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.sds_http.gateway import BODY_BYTES_MAX
from opentalos.gateway.sds_http.starting import starting_routes
from opentalos.wire._generated import sds
from opentalos.wire.thrift import decode_reply, encode_call

SERVICE = sds.SERVICES["TableService"]
PUT = encode_call(BINARY, SERVICE.methods["put"], 7, sds.PutRequest(tableName="t", record={}))


def answer(authorization: bytes, body: bytes) -> tuple[int, bytes]:
    connection = Connection()
    stand_in: Any = connection
    headers = {b"content-type": BINARY.value.encode(), b"authorization": authorization}
    exchange = Exchange(stand_in, b"POST", SERVICE.path.encode(), headers)
    exchange.body = body
    starting_routes()[SERVICE.path.encode()](exchange)
    ((status, _, body),) = connection.replies
    return status, body


def test_clients_that_repeat_codes_get_one() -> None:
    status, body = answer(b"Galaxy-V2 key:signature", PUT)
    assert status == 200
    error: Any = decode_reply(BINARY, SERVICE.methods["put"], body).error
    assert error.errorCode == sds.ErrorCode.SERVICE_UNAVAILABLE
    assert "starting" in error.errorMessage


def test_clients_that_repeat_statuses_get_one() -> None:
    status, body = answer(b'{"1":{"str":"SDS-V1"}}', PUT)
    assert status == 500
    assert b"starting" in body


@pytest.mark.parametrize(
    ("body", "status"), [(b"garbage", 400), (bytes(BODY_BYTES_MAX + 1), 500)], ids=["bad", "large"]
)
def test_an_invalid_call_gets_a_status(body: bytes, status: int) -> None:
    assert answer(b"Galaxy-V2 key:signature", body)[0] == status
