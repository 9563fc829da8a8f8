"""Clock: wall time and random tokens; intervals come from the running loop."""

from typing import Protocol


class Clock(Protocol):
    """Wall time and unguessable tokens; the only source of both below the gateways."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds; may jump either way."""
        ...

    def token(self, bytes_count: int) -> bytes:
        """Random bytes, fit for secrets and unique ids."""
        ...
