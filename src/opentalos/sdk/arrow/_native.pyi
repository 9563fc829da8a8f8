"""The encoder of rows: native/rows.c, built by ``make accelerator`` or into a wheel."""

from typing import Any

INTERFACE: int

class Rows:
    def __init__(
        self, batches: tuple[tuple[int, tuple[tuple[Any, ...], ...]], ...], numbers: Any, /
    ) -> None: ...
    def block(self, start: int, bytes_max: int, rows_max: int, /) -> tuple[bytes, int]: ...
