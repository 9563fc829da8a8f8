"""Payloads of encrypted blocks. Sans-io; the key does the cipher.

A block is encrypted when a put is accepted and decrypted when it leaves the log, so journal,
segments, tail cache, recovery and merges have one and the same ciphertext. Its header stays plain:
counts, times, compression and producer are what the log works with.

Shape: payload of a block whose format has the bit ENCRYPTED; such a block has no extras of its own
    [version u8 = 1][key id 8][extras bytes u16][nonce 12][ciphertext of extras and payload][tag 16]
Authenticated with it, so that no block passes in another place: [the first 11 bytes]
    [messages u32][create ms i64][compression u8][format u8][partition u32][topic uuid]
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from opentalos.model.errors import CorruptLog, NewerFormat, PartitionNotServing
from opentalos.model.message import (
    ENCRYPTED,
    MessageBlock,
    PartitionKey,
    ProducerStamp,
    StoredBlock,
)
from opentalos.ports.key_ring import KEY_ID_BYTES, NONCE_BYTES, TAG_BYTES, DataKey, KeyRing

VERSION: Final = 1
_HEAD: Final = struct.Struct(f">B{KEY_ID_BYTES}sH")
_BOUND: Final = struct.Struct(">IqBB")
_PARTITION: Final = struct.Struct(">I")
_pack_head, _pack_bound = _HEAD.pack, _BOUND.pack
_CIPHERTEXT_AT: Final = _HEAD.size + NONCE_BYTES
ENCRYPTION_BYTES: Final = _CIPHERTEXT_AT + TAG_BYTES  # that encryption adds to payload and extras
_EXTRAS_AT: Final = 1 + KEY_ID_BYTES
_Fields = tuple[bytes, int, int, int, int, int, bytes, ProducerStamp | None]
_Make = Callable[[_Fields], MessageBlock]
_message_block = cast(_Make, partial(tuple.__new__, MessageBlock))  # skips a Python function


def place_of(key: PartitionKey) -> bytes:
    """What binds blocks to their partition."""
    return _PARTITION.pack(key.partition) + key.topic_uuid.encode()


def encrypt_block(block: MessageBlock, key: DataKey, place: bytes) -> MessageBlock:
    """The block with its payload and extras encrypted. ``place``: as ``place_of`` gives it.

    Raises: struct.error: a field is out of its range; ``block_error`` says which.
    """
    payload, messages, compression, create_ms, payload_format, principal, extras, stamp = block
    head = _pack_head(VERSION, key.id, len(extras))
    content = b"".join((extras, payload)) if extras else payload
    bound = _pack_bound(messages, create_ms, compression, payload_format)
    nonce, ciphertext = key.encrypt(content, head + bound + place)
    payload = b"".join((head, nonce, ciphertext))
    return _message_block(
        (
            payload,
            messages,
            compression,
            create_ms,
            payload_format | ENCRYPTED,
            principal,
            b"",
            stamp,
        )
    )


def _key_id_of(block: StoredBlock) -> bytes:
    """Id of the key that opens the block. Raises: CorruptLog, NewerFormat."""
    payload = block.payload
    if len(payload) < ENCRYPTION_BYTES:
        raise CorruptLog(
            f"encrypted payload of {len(payload)} bytes, need {ENCRYPTION_BYTES} or more"
        )
    if payload[0] != VERSION:
        raise NewerFormat(f"encrypted payload of format {payload[0]}, this server knows {VERSION}")
    return bytes(payload[1:_EXTRAS_AT])


def decrypt_block(block: StoredBlock, key: DataKey, place: bytes) -> StoredBlock:
    """The block as the producer sent it. Raises: CorruptLog."""
    base_offset, messages, append_ms, create_ms, compression, payload_format, payload, _ = block
    payload_format &= ~ENCRYPTED
    head = bytes(payload[: _HEAD.size])
    bound = _pack_bound(messages, create_ms, compression, payload_format)
    content = key.decrypt(
        bytes(payload[_HEAD.size : _CIPHERTEXT_AT]),
        memoryview(payload)[_CIPHERTEXT_AT:],
        head + bound + place,
    )
    extras_bytes = int.from_bytes(head[_EXTRAS_AT:], "big")
    extras = content[:extras_bytes]
    return StoredBlock(
        base_offset,
        messages,
        append_ms,
        create_ms,
        compression,
        payload_format,
        content[extras_bytes:] if extras_bytes else content,
        extras,
    )


def decrypt_blocks(blocks: list[StoredBlock], keys: KeyRing | None, place: bytes) -> bool:
    """Decrypt what is encrypted, in place; False: a key is not known, and the rest is left.

    A damaged block ends the list. Raises: CorruptLog: the first one is; NewerFormat.
    """
    for at, block in enumerate(blocks):
        if block.format < ENCRYPTED:
            continue
        try:
            key = None if keys is None else keys.find(_key_id_of(block))
            if key is None:
                return False
            blocks[at] = decrypt_block(block, key, place)
        except CorruptLog as error:
            if at == 0:
                raise CorruptLog(f"offset {block.base_offset}: {error}") from error
            del blocks[at:]
            return True
    return True


def readable_part(blocks: list[StoredBlock], keys: KeyRing | None, name: str) -> list[StoredBlock]:
    """The decrypted blocks at the start. Raises: PartitionNotServing: there is none."""
    encrypted = next(at for at, block in enumerate(blocks) if block.format >= ENCRYPTED)
    if encrypted:
        return blocks[:encrypted]
    block = blocks[0]
    why = "this server has no encryption key" if keys is None else "this server cannot unwrap it"
    raise PartitionNotServing(
        f"{name}: offset {block.base_offset} is encrypted with data key "
        f"{_key_id_of(block).hex()}: {why}; give it the [encryption] key of the other servers"
    )


def plain_bytes(payload: bytes | memoryview) -> int:
    """Payload bytes that the producer sent, of an encrypted payload. Promise I9: what is metered
    does not depend on encryption."""
    extras_bytes = payload[_EXTRAS_AT] << 8 | payload[_EXTRAS_AT + 1]
    return len(payload) - ENCRYPTION_BYTES - extras_bytes
