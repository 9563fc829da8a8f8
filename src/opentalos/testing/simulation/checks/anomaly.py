"""What a check finds."""

from typing import NamedTuple


class Anomaly(NamedTuple):
    """One broken promise: its name from ``checker.ANOMALIES``, and what shows it."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
