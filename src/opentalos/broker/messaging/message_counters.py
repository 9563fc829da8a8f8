"""Counters of the message use cases, for metrics."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class MessageCounters:
    """Since the start, over every protocol; puts and gets that were admitted. Payload bytes."""

    puts: int = 0
    put_bytes: int = 0
    puts_throttled: int = 0  # delayed by a rate quota
    gets: int = 0
    get_messages: int = 0
    get_bytes: int = 0
    gets_throttled: int = 0  # delayed by a rate quota


class HeldCalls(NamedTuple):
    """Calls that wait in memory."""

    put_bytes: int  # of throttled puts
    gets: int  # at the end of a log, for messages
