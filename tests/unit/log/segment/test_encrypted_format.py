"""Encrypted blocks: exact layout, open only in their place, and garbage is refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.adapters.data_key import AesGcmDataKey
from opentalos.log.segment.encrypted_format import (
    ENCRYPTION_BYTES,
    decrypt_block,
    decrypt_blocks,
    encrypt_block,
    place_of,
    plain_bytes,
    readable_part,
)
from opentalos.model.errors import CorruptLog, NewerFormat, PartitionNotServing, TalosError
from opentalos.model.message import (
    ENCRYPTED,
    MessageBlock,
    PartitionKey,
    ProducerStamp,
    StoredBlock,
)

PLACE = place_of(PartitionKey("topic-uuid", 3))
KEY = AesGcmDataKey(b"\1\2\3\4\5\6\7\x08", bytes(range(32)), bytes)
SENT = MessageBlock(b"payload", 3, 1, 17, 1, 42, b"extra", ProducerStamp(5, 6, 7))


class Ring:
    """Finds only KEY."""

    def current(self, tenant: str) -> AesGcmDataKey:
        return KEY

    def find(self, key_id: bytes) -> AesGcmDataKey | None:
        return KEY if key_id == KEY.id else None

    async def refresh(self, tenant: str) -> None:
        pass


def stored(block: MessageBlock, base_offset: int = 120) -> StoredBlock:
    return StoredBlock(
        base_offset,
        block.messages,
        1_700_000_000_000,
        block.create_ms,
        block.compression,
        block.format,
        block.payload,
        block.extras,
    )


def test_an_encrypted_block_is_laid_out_as_the_format_says() -> None:
    made = encrypt_block(SENT, KEY, PLACE)
    assert made._replace(payload=SENT.payload, format=1, extras=b"extra") == SENT
    assert (made.format, made.extras) == (1 | ENCRYPTED, b"")
    assert made.payload[:11] == b"\1" + KEY.id + (5).to_bytes(2, "big")
    assert len(made.payload) == ENCRYPTION_BYTES + len(b"extrapayload")
    bound = (
        made.payload[:11]
        + (3).to_bytes(4, "big")
        + (17).to_bytes(8, "big")
        + bytes([1, 1])
        + (3).to_bytes(4, "big")
        + b"topic-uuid"
    )
    assert KEY.decrypt(made.payload[11:23], made.payload[23:], bound) == b"extrapayload"
    assert plain_bytes(made.payload) == len(SENT.payload)


@given(payload=st.binary(min_size=1, max_size=300), extras=st.binary(max_size=50))
@settings(deadline=None)
def test_a_block_comes_back_as_it_was_sent(payload: bytes, extras: bytes) -> None:
    view: Any = memoryview(payload)  # of a received request
    sent = SENT._replace(payload=view, extras=extras)
    made = encrypt_block(sent, KEY, PLACE)
    assert decrypt_block(stored(made), KEY, PLACE) == stored(
        SENT._replace(payload=payload, extras=extras)
    )
    assert plain_bytes(made.payload) == len(payload)


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        (place_of(PartitionKey("topic-uuid", 4)), {}),
        (place_of(PartitionKey("other-uuid", 3)), {}),
        (PLACE, {"messages": 4}),
        (PLACE, {"create_ms": 18}),
        (PLACE, {"compression": 2}),
        (PLACE, {"format": 2 | ENCRYPTED}),
    ],
)
def test_a_block_opens_nowhere_else_and_with_no_other_header(
    place: bytes, changes: dict[str, Any]
) -> None:
    made = stored(encrypt_block(SENT, KEY, PLACE))._replace(**changes)
    with pytest.raises(CorruptLog, match="offset 120"):
        decrypt_blocks([made], Ring(), place)


def test_damage_after_readable_blocks_ends_the_list() -> None:
    good = stored(encrypt_block(SENT, KEY, PLACE))
    bad = good._replace(base_offset=123, payload=bytes(good.payload[:-1]) + b"\0")
    plain = stored(SENT, 126)
    blocks = [good, bad, plain]
    assert decrypt_blocks(blocks, Ring(), PLACE)
    assert blocks == [stored(SENT)]


def test_blocks_before_one_of_an_unknown_key_are_readable() -> None:
    unknown = AesGcmDataKey(b"unknown!", bytes(32), bytes)
    other = stored(encrypt_block(SENT, unknown, PLACE), 126)
    blocks = [stored(SENT), stored(encrypt_block(SENT, KEY, PLACE), 123), other]
    assert not decrypt_blocks(blocks, Ring(), PLACE)
    assert readable_part(blocks, Ring(), "t/3") == [stored(SENT), stored(SENT, 123)]
    with pytest.raises(PartitionNotServing, match=r"offset 126 is encrypted.*756e6b6e6f776e21"):
        readable_part([other], Ring(), "t/3")
    assert not decrypt_blocks([other], None, PLACE)
    with pytest.raises(PartitionNotServing, match="this server has no encryption key"):
        readable_part([other], None, "t/3")


def test_a_newer_envelope_is_refused() -> None:
    made = stored(encrypt_block(SENT, KEY, PLACE))
    with pytest.raises(NewerFormat):
        decrypt_blocks([made._replace(payload=b"\2" + bytes(made.payload[1:]))], Ring(), PLACE)


@given(st.binary(max_size=200))
def test_garbage_is_refused(payload: bytes) -> None:
    block = stored(SENT)._replace(format=1 | ENCRYPTED, payload=payload)
    try:
        assert not decrypt_blocks([block], Ring(), PLACE)
    except TalosError:
        pass
