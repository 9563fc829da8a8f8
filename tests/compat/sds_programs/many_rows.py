"""Thousands of calls of the SDS client, one after another, and whether each did what it must."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from load_table import (
    Arguments,
    Plain,
    admin_client,
    datums,
    plain,
    reason,
    run,
    say,
    spec,
    table_client,
)
from sds.table.ttypes import GetRequest, IncrementRequest, PutRequest, RemoveRequest, ScanRequest

NAME = "many"
GROUPS = 10
TEXT_MAX = 200
SHOWN_MAX = 20


class Calls:
    """Counts calls and failures."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def make(self, name: str, call: Callable[[], Any]) -> Any:
        self.counts[name] += 1
        try:
            return call()
        except Exception as error:
            self.failures.append(f"{name}: {reason(error)}")
            return None

    def same(self, found: Any, wanted: Any, what: str) -> None:
        if found != wanted:
            self.failures.append(f"wrong: {what} is {found!r}, not {wanted!r}")


def row_round(calls: Calls, tables: Any, number: int, text: str) -> None:
    """The life of one row."""
    key: Plain = {"grp": f"g{number % GROUPS}", "id": number}
    row = {**key, "token": text, "count": number}

    def read() -> Plain:
        request = GetRequest(NAME, datums(key))
        return plain(getattr(calls.make("get", lambda: tables.get(request)), "item", None))

    calls.make("put", lambda: tables.put(PutRequest(NAME, datums(row))))
    calls.same(read(), row, "row")
    more = IncrementRequest(NAME, datums(key), datums({"count": 2}))
    calls.make("increment", lambda: tables.increment(more))
    calls.same(read(), {**row, "count": number + 2}, "incremented row")
    group = datums({"grp": key["grp"]})
    whole = ScanRequest(NAME, startKey=group, stopKey=group, attributes=["id"], limit=10)
    page = calls.make("scan", lambda: tables.scan(whole))
    found = [plain(record) for record in getattr(page, "records", [])]
    calls.same(found, [{"id": number}], "page")
    calls.make("remove", lambda: tables.remove(RemoveRequest(NAME, datums(key))))
    calls.same(read(), {}, "removed row")


def program(arguments: Arguments) -> None:
    admin, tables, calls = admin_client(arguments), table_client(arguments), Calls()
    admin.createTable(NAME, spec(arguments))
    source = random.Random(arguments["seed"])
    for number in range(arguments["rounds"]):
        row_round(calls, tables, number, "t" * source.randrange(TEXT_MAX) + str(number))
        state = calls.make("state", lambda: admin.getTableState(NAME))
        calls.same(state is not None, True, "state")
    say(calls=calls.counts, failed=len(calls.failures), failures=calls.failures[:SHOWN_MAX])


run(program)
