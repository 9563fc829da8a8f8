"""The decoder of messages: native/columns.c, built by ``make accelerator`` or into a wheel."""

from typing_extensions import Buffer

INTERFACE: int

def decode(
    blocks: tuple[tuple[Buffer, int, int], ...], /
) -> tuple[tuple[int, bytearray | None, bytearray | None, bytearray] | None, ...] | None: ...
