"""The result of one check."""

from dataclasses import dataclass
from typing import Final, Literal

State = Literal["ok", "warning", "problem"]
COLUMNS: Final = ("state", "check", "text", "remedy")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; ``remedy`` says what to do about it, and is empty if it is ok."""

    check: str
    state: State
    text: str
    remedy: str = ""

    @property
    def line(self) -> str:
        """One line for people."""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return " ".join(f"{self.state:<8} {self.check:<9} {self.text}{remedy}".splitlines())
