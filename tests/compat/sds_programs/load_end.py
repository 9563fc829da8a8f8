"""After the load: mutate each row a last time, then read the table by its keys and by its index.

Whoever reads the streams waits for these last changes, so that nothing is left on its way.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from load_history import History
from load_mutations import GROUPS, IDS, row_of
from load_table import (
    INDEX,
    KEYS,
    Arguments,
    Plain,
    datums,
    key_of,
    plain,
    reason,
    run,
    say,
    table_client,
)
from sds.client.tablescanner import datum_scan_iter
from sds.table.ttypes import PutRequest, RemoveRequest, ScanRequest

PAUSE_S = 0.2
PAGE_ROWS = 7  # so that there are several pages


class Last:
    """Mutations that are repeated until they are answered; each attempt is one of its own."""

    def __init__(self, arguments: Arguments) -> None:
        self.table = arguments["table"]
        self.client = table_client(arguments)
        self.history = History(arguments["history"], "last")

    def put(self, number: int) -> None:
        """A token of its own for each attempt."""
        row = row_of(number)
        for attempt in itertools.count(1):
            columns = {"token": f"last-{number}-{attempt}", "flag": "last"}
            request = PutRequest(self.table, datums({**row, **columns}))
            if self.sent("put", row, partial(self.client.put, request), columns=columns):
                return

    def remove(self, number: int) -> None:
        """The whole row."""
        row = row_of(number)
        request = RemoveRequest(self.table, datums(row))
        while not self.sent("remove", row, partial(self.client.remove, request)):
            pass

    def sent(self, operation: str, row: Plain, call: Callable[[], Any], **told: Any) -> bool:
        """Whether it was answered. The test ends a program that hangs."""
        told = {"operation": operation, **told}
        number = self.history.invoke("mutate", table=self.table, key=key_of(row), **told)
        try:
            self.history.ok(number, success=bool(call().success))
        except Exception as error:
            self.history.unknown(number, reason(error))
            time.sleep(PAUSE_S)
            return False
        return True

    def scan(self, **more: Any) -> list[list[Any]]:
        """Rows by name; several pages."""
        request = ScanRequest(tableName=self.table, limit=PAGE_ROWS, **more)
        found = [plain(record) for record in datum_scan_iter(self.client, request)]
        return [
            [key_of(row), {name: value for name, value in row.items() if name not in KEYS}]
            for row in found
        ]


def program(arguments: Arguments) -> None:
    last = Last(arguments)
    numbers = range(GROUPS * IDS)
    for number in numbers:
        last.put(number)
    removed = [number for number in numbers if number % 3 == 0]
    for number in removed:
        last.remove(number)
    args = {"table": last.table, "final": True}
    scan = last.history.invoke("scan", **args)
    last.history.ok(scan, rows=last.scan(inGlobalOrder=False))
    scan = last.history.invoke("scan", index=INDEX, column="flag", **args)
    rows = []
    for group in range(GROUPS):
        key = datums({"grp": f"g{group}"})
        rows += last.scan(indexName=INDEX, startKey=key, stopKey=key)
    last.history.ok(scan, rows=rows)
    say(
        kept=[key_of(row_of(number)) for number in numbers if number not in removed],
        removed=[key_of(row_of(number)) for number in removed],
    )


if __name__ == "__main__":
    run(program)
