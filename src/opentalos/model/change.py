"""One change of one row, as streams tell it."""

from enum import IntEnum
from typing import NamedTuple

from opentalos.model.datum import Columns


class ChangeKind(IntEnum):
    """What was done to the row. Source: docs/protocol/sds.md#streams."""

    PUT = 1
    DELETE = 2
    INCREMENT = 3


class StreamView(IntEnum):
    """Which parts of a change a stream publishes. Source: docs/protocol/sds.md#streams."""

    RECORD_IMAGE = 1
    MUTATE_LOG = 2
    KEYS_ONLY = 3


class Change(NamedTuple):
    """A unit mutation that succeeded. Key columns are in ``key`` alone.

    A decoded change has only the parts of its view: RECORD_IMAGE ``image``, MUTATE_LOG ``columns``
    and ``amounts``, KEYS_ONLY neither.
    """

    kind: ChangeKind
    key: Columns
    columns: Columns  # written; of an increment the resulting values; of a delete those removed
    amounts: Columns  # of an increment
    image: Columns  # the row's other columns after the change
    row_deleted: bool
    timestamp_ms: int  # of the server's update; grows strictly with each change of a row
    sequence: int  # of the row's changes, from 1, never again; not in the message's own bytes
