"""Stream messages as the SDS client's own classes read them: payloads in hexadecimal digits.

The client is older than some fields, which it skips, and than KEYS_ONLY.
"""

from typing import Any

from load_table import Arguments, run, say
from sds.client.datumutil import value
from sds.table.ttypes import MutationLogEntry, RecordImage
from thrift.protocol.TCompactProtocol import TCompactProtocol


class Bytes:
    """A transport; the client's own one keeps text."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def readAll(self, count: int) -> bytes:  # the library's name
        """The next bytes."""
        self.position += count
        return self.data[self.position - count : self.position]


def shown(datum: Any) -> Any:
    found = value(datum)
    return found.decode() if isinstance(found, bytes) else found


def program(arguments: Arguments) -> None:
    for view, payload in arguments["payloads"]:
        transport = Bytes(bytes.fromhex(payload))
        entry = MutationLogEntry() if view == "MUTATE_LOG" else RecordImage()
        entry.read(TCompactProtocol(transport))
        say(
            record={name.decode(): shown(datum) for name, datum in entry.record.items()},
            type=getattr(entry, "type", None),
            deleted=entry.rowDeleted,
            timestamp=entry.timestamp,
            left=len(transport.data) - transport.position,
        )


run(program)
