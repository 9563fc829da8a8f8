"""The result of a check."""

from typing import NamedTuple


class Anomaly(NamedTuple):
    """One broken promise: its name from ``checker.ANOMALIES``, and the evidence as text."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
