"""Mutate a few rows until stdin ends: puts, counts, removes, conditions and batches, by several
threads that meet on the same rows. Each writes down what became of every single mutation.

The client repeats no call whose outcome is open: it does so only for statuses that say why the
request was not taken.
"""

import random
import threading
import time
from typing import Any, NamedTuple

from load_history import History, stop_at_end_of_input
from load_table import (
    Arguments,
    Plain,
    datums,
    is_not_done,
    key_of,
    plain,
    reason,
    run,
    say,
    table_client,
)
from sds.table.ttypes import (
    BatchOp,
    BatchRequest,
    BatchRequestItem,
    IncrementRequest,
    OperatorType,
    PutRequest,
    RemoveRequest,
    Request,
    SimpleCondition,
)

GROUPS, IDS = 12, 2  # rows: few, so that threads meet; groups in every shard
FLAGS = ("red", "green", "blue")
AMOUNT_MAX = 5
BATCH_MAX = 5
PAUSE_AFTER_FAILURE_S = 0.1
# How often each kind is drawn; a batch is of several of the others.
KINDS = {"put": 8, "increment": 6, "remove": 2, "remove-flag": 1, "conditional": 3, "batch": 4}


OPERATIONS = {BatchOp.PUT: "put", BatchOp.INCREMENT: "increment", BatchOp.REMOVE: "remove"}


class Unit(NamedTuple):
    """One mutation of one row, before it is sent. ``told``: what the history says of it."""

    action: int
    row: Plain
    request: Any
    told: Plain


class Writer(threading.Thread):
    """One of the threads; ``prefix-number`` names it and all that it writes."""

    def __init__(self, arguments: Arguments, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.name = f"{arguments['prefix']}-{number}"
        self.table = arguments["table"]
        self.pause_s = arguments.get("pause_s", 0)
        self.stop, self.client = stop, table_client(arguments)
        path = f"{arguments['history']}".replace(".jsonl", f"-{number}.jsonl")
        self.history = History(path, self.name)
        self.source = random.Random(self.name)
        self.count = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                done = self.step()
                time.sleep(self.pause_s if done else PAUSE_AFTER_FAILURE_S)
        except BaseException as error:  # reported by the main thread
            self.problem = error

    def step(self) -> bool:
        """One call. Whether it was answered."""
        kind = self.source.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "batch":
            return self.batch()
        unit = self.unit(kind, self.row())
        number = self.invoke(unit)
        call = {
            BatchOp.PUT: self.client.put,
            BatchOp.INCREMENT: self.client.increment,
            BatchOp.REMOVE: self.client.remove,
        }[unit.action]
        try:
            answer = call(unit.request)
        except Exception as error:
            self.failed(number, error)
            return False
        self.answered(number, unit, answer)
        return True

    def batch(self) -> bool:
        """Mutations of distinct rows in one call; each has an outcome of its own."""
        kinds = [kind for kind in KINDS if kind not in ("batch", "conditional")]
        rows = self.source.sample(range(GROUPS * IDS), self.source.randint(2, BATCH_MAX))
        units = [self.unit(self.source.choice(kinds), row_of(number)) for number in rows]
        numbers = [self.invoke(unit) for unit in units]
        items = [BatchRequestItem(unit.action, union(unit)) for unit in units]
        try:
            answers = self.client.batch(BatchRequest(items)).items
        except Exception as error:
            for number in numbers:
                self.failed(number, error)
            return False
        for number, unit, answer in zip(numbers, units, answers, strict=True):
            if answer.success:
                result = answer.result
                self.answered(
                    number, unit, result.putResult or result.incrementResult or result.removeResult
                )
            else:
                self.failed(number, answer.serviceException or Exception("no reason given"))
        return True

    def row(self) -> Plain:
        return row_of(self.source.randrange(GROUPS * IDS))

    def unit(self, kind: str, row: Plain) -> Unit:
        """A mutation; a put writes a token that no other has."""
        self.count += 1
        if kind == "increment":
            amounts: Plain = {"count": self.source.randint(1, AMOUNT_MAX)}
            request = IncrementRequest(self.table, datums(row), datums(amounts))
            return Unit(BatchOp.INCREMENT, row, request, {"amounts": amounts})
        if kind == "remove":
            return Unit(BatchOp.REMOVE, row, RemoveRequest(self.table, datums(row)), {})
        if kind == "remove-flag":
            request = RemoveRequest(self.table, datums(row), ["flag"])
            return Unit(BatchOp.REMOVE, row, request, {"attribute": "flag"})
        columns: Plain = {
            "token": f"{self.name}-{self.count}",
            "flag": self.source.choice(FLAGS),
        }
        if kind == "put":
            request = PutRequest(self.table, datums({**row, **columns}))
            return Unit(BatchOp.PUT, row, request, {"columns": columns})
        return self.conditional(row, columns)

    def conditional(self, row: Plain, columns: Plain) -> Unit:
        """A put or remove that the row's own state decides."""
        draw = self.source.randrange(3)
        told: Plain
        if draw == 0:
            exists = self.source.random() < 0.5
            condition, told = SimpleCondition(rowExist=exists), {"row_exists": exists}
        else:
            flag, equal = self.source.choice(FLAGS), OperatorType.EQUAL
            condition = SimpleCondition(equal, "flag", datums({"flag": flag})["flag"])
            told = {"field": "flag", "operator": equal, "value": flag}
        if draw == 2:
            request = RemoveRequest(self.table, datums(row), condition=condition)
            return Unit(BatchOp.REMOVE, row, request, {"condition": told})
        request = PutRequest(self.table, datums({**row, **columns}), condition)
        return Unit(BatchOp.PUT, row, request, {"columns": columns, "condition": told})

    def invoke(self, unit: Unit) -> int:
        told = {"operation": OPERATIONS[unit.action], **unit.told}
        return self.history.invoke("mutate", table=self.table, key=key_of(unit.row), **told)

    def answered(self, number: int, unit: Unit, answer: Any) -> None:
        if unit.action == BatchOp.INCREMENT:
            self.history.ok(number, success=True, amounts=plain(answer.amounts))
        else:
            self.history.ok(number, success=bool(answer.success))

    def failed(self, number: int, error: Exception) -> None:
        end = self.history.fail if is_not_done(error) else self.history.unknown
        end(number, reason(error))


def row_of(number: int) -> Plain:
    return {"grp": f"g{number % GROUPS}", "id": number // GROUPS}


def union(unit: Unit) -> Any:
    """A request as batches have it."""
    return Request(**{f"{OPERATIONS[unit.action]}Request": unit.request})


def program(arguments: Arguments) -> None:
    stop = stop_at_end_of_input()
    writers = [Writer(arguments, number, stop) for number in range(arguments.get("threads", 1))]
    for writer in writers:
        writer.start()
    say(event="started")
    for writer in writers:
        writer.join()
        if writer.problem is not None:
            raise writer.problem
    say(event="stopped", mutations=sum(writer.count for writer in writers))


if __name__ == "__main__":
    run(program)
