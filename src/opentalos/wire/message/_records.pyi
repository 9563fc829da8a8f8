"""The walk over records: native/records.c, built by ``make accelerator`` or into a wheel."""

from typing_extensions import Buffer

def walk(data: Buffer, position: int, count: int, /) -> int: ...
