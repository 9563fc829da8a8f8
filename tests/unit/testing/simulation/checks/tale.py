"""Writes small histories by hand."""

from typing import Any

from opentalos.testing.simulation.history import Operation, Recorder


class Tale:
    """Writes a history; every call takes one second unless ``during`` holds it open."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.recorder = Recorder(lambda: self.now_s)

    def tick(self, seconds: float = 1.0) -> None:
        self.now_s += seconds

    def begin(self, action: str, process: str = "p", **args: Any) -> Operation:
        self.tick()
        place = {"topic": "t", "partition": 0}
        if action in ("lock", "unlock", "renew", "commit", "checkpoint", "reset"):
            place["group"] = "g"
        return self.recorder.invoke(process, action, **{**place, **args})

    def ok(self, operation: Operation, **result: Any) -> None:
        self.tick()
        self.recorder.ok(operation, **result)

    def put(self, *ids: str, outcome: str = "ok", **args: Any) -> None:
        operation = self.begin("put", ids=list(ids), **args)
        self.tick()
        if outcome == "ok":
            self.recorder.ok(operation)
        elif outcome == "fail":
            self.recorder.fail(operation, "Unavailable")
        elif outcome == "unknown":
            self.recorder.unknown(operation, "OutcomeUnknown")

    def read(self, offset: int, *ids: str | None, base: int | None = None, **args: Any) -> None:
        operation = self.begin("read", process="c", offset=offset, **args)
        first = offset if base is None else base
        self.ok(operation, blocks=[[first, list(ids)]] if ids else [])

    def poll(self, offset: int, *ids: str, **args: Any) -> None:
        operation = self.begin("poll", process="c", session=1, **args)
        self.ok(operation, blocks=[[offset, list(ids)]])

    def final(self, start: int, *ids: str | None, following: int | None = None) -> None:
        operation = self.begin("read", process="final", offset=-1, final=True)
        end = start + len(ids) if following is None else following
        self.ok(operation, blocks=[[start, list(ids)]] if ids else [], start=start, next=end)

    def range(self, start: int, following: int) -> None:
        self.ok(self.begin("range"), start=start, next=following)

    def refuse(self, action: str, error: str, **args: Any) -> None:
        operation = self.begin(action, **args)
        self.tick()
        self.recorder.fail(operation, error)

    def lease(self, action: str, worker: str, **args: Any) -> None:
        self.ok(self.begin(action, process=worker, worker=worker, **args))

    def note(self, kind: str, **args: Any) -> None:
        self.tick()
        self.recorder.note(kind, **args)
