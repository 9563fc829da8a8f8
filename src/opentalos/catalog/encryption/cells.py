"""Encrypted cells: how a value of a row is stored encrypted, and read back.

The broker encrypts cells of structured tables and the texts of committed offsets with it.

Shape: cell: [mark 0xe5][version u8 = 1][key id 8][nonce 12][ciphertext][tag 16]
Authenticated with it, so that no cell passes in another place: [the first 10 bytes][bound bytes]
"""

import struct
from collections.abc import Callable
from typing import Final

from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.ports.key_ring import KEY_ID_BYTES, NONCE_BYTES, TAG_BYTES, DataKey, KeyRing

MARK: Final = b"\xe5"
VERSION: Final = 1
_HEAD: Final = struct.Struct(f">sB{KEY_ID_BYTES}s")
_CIPHERTEXT_AT: Final = _HEAD.size + NONCE_BYTES
CELL_BYTES: Final = _CIPHERTEXT_AT + TAG_BYTES  # that encryption adds to a cell
_CONTINUATION: Final = b"\x80"  # and above: bytes of UTF-8 that follow the mark in a plain text


def encrypt_cell(cell: bytes, key: DataKey, bound: bytes) -> bytes:
    """The cell as it is stored in the place that ``bound`` names."""
    head = _HEAD.pack(MARK, VERSION, key.id)
    return b"".join((head, *key.encrypt(cell, head + bound)))


def decrypt_cell(cell: bytes, key: DataKey, bound: bytes) -> bytes:
    """What was encrypted with the key that ``key_of`` found. Raises: CorruptLog."""
    nonce, ciphertext = cell[_HEAD.size : _CIPHERTEXT_AT], cell[_CIPHERTEXT_AT:]
    return key.decrypt(nonce, ciphertext, cell[: _HEAD.size] + bound)


def key_id_of(cell: bytes) -> bytes:
    """Id of the key that decrypts a cell. Raises: CorruptLog, NewerFormat."""
    if len(cell) < CELL_BYTES:
        raise CorruptLog(f"encrypted cell of {len(cell)} bytes, need {CELL_BYTES} or more")
    _, version, key_id = _HEAD.unpack_from(cell)
    if version != VERSION:
        raise NewerFormat(f"encrypted cell of format {version}, this server knows {VERSION}")
    return bytes(key_id)


async def key_of(cell: bytes, keys: KeyRing, owner: Callable[[], str]) -> DataKey | None:
    """The key that decrypts a cell; None: this server cannot unwrap it.

    Args:   owner: whose key it is, if this server has to read the tenant's keys again.
    Raises: CorruptLog, NewerFormat, Unavailable.
    """
    key_id = key_id_of(cell)
    key = keys.find(key_id)
    if key is None:  # another server may have made it a moment ago
        await keys.refresh(owner())
        key = keys.find(key_id)
    return key


def is_encrypted_text(cell: bytes) -> bool:
    """Whether a cell that has UTF-8 when it is plain is encrypted: such text never begins so."""
    return cell[:1] == MARK and cell[1:2] < _CONTINUATION
