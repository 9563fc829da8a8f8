"""Records of principals: versions and what older servers read."""

import json

import pytest

from opentalos.catalog.principals.record import (
    KeyRecord,
    PrincipalRecord,
    decode_principal,
    encode_principal,
)
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.identity import KeyLimits, Principal, Role, Scope

KEY = KeyRecord(key_id="DK1", sealed=b"s", created_ms=5, disabled=False)
PLAIN = PrincipalRecord(principal=Principal(id="alice", number=7), created_ms=3, keys=(KEY,))
LIMITED = PrincipalRecord(
    principal=Principal(id="alice", number=7, role=Role.AGENT),
    created_ms=3,
    keys=(
        KEY,
        KeyRecord(
            key_id="DK2",
            sealed=b"t",
            created_ms=6,
            disabled=True,
            limits=KeyLimits(scopes=(Scope.PUT,), expires_ms=9, addresses=("10.0.0.0/8",)),
        ),
    ),
)
# As the first version wrote it.
FORMER = (
    b'{"version":1,"id":"alice","number":7,"organisation":"","team":"","admin":false,'
    b'"created_ms":3,"disabled":false,"keys":[{"key_id":"DK1","sealed":"cw==","created_ms":5,'
    b'"disabled":false}]}'
)


@pytest.mark.parametrize("record", [PLAIN, LIMITED])
def test_a_record_is_read_as_it_was_written(record: PrincipalRecord) -> None:
    assert decode_principal(encode_principal(record)) == record


def test_a_record_of_the_first_version_is_read() -> None:
    assert decode_principal(FORMER) == PLAIN


def test_a_record_without_roles_and_limits_stays_readable_for_older_servers() -> None:
    written = json.loads(encode_principal(PLAIN))
    assert written.pop("refuse_replays") is False
    assert written == json.loads(FORMER)


def test_a_record_with_limits_has_a_version_that_older_servers_refuse() -> None:
    assert json.loads(encode_principal(LIMITED))["version"] == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 3}, NewerFormat),
        ({"role": "king"}, CorruptLog),
        ({"keys": [{"key_id": "DK2"}]}, CorruptLog),
    ],
)
def test_an_unusable_record_is_refused(change: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_principal(json.dumps(json.loads(encode_principal(LIMITED)) | change).encode())


def test_a_limited_key_ends_at_its_expiry() -> None:
    key = LIMITED.keys[1]
    assert not key.live(8)  # it is disabled
    assert KEY.live(10**15)
    short = KeyRecord(
        key_id="DK3", sealed=b"", created_ms=0, disabled=False, limits=KeyLimits(expires_ms=9)
    )
    assert (short.live(8), short.live(9)) == (True, False)
