"""A calendar month in UTC, the period of an invoice."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self

HOUR_MS: Final = 3_600_000
_FORM: Final = re.compile(r"(\d{4})-(\d{2})")
_MONTHS: Final = 12
_DAYS_MAX: Final = 31


class Month(NamedTuple):
    """A month, ordered by time; its text is YYYY-MM."""

    year: int
    number: int  # 1 to 12

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse YYYY-MM. Raises: ValueError: the text has another form."""
        found = _FORM.fullmatch(text)
        if not found or int(found[1]) < 1970 or not 1 <= int(found[2]) <= _MONTHS:
            raise ValueError(f"{text!r} is not a month: write YYYY-MM, such as 2026-03")
        return cls(int(found[1]), int(found[2]))

    @property
    def begin(self) -> datetime:
        """The first instant."""
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first instant of the month after."""
        late = self.begin + timedelta(days=_DAYS_MAX)
        return late.replace(day=1)

    @property
    def begin_ms(self) -> int:
        """Of ``begin``, Unix time."""
        return int(self.begin.timestamp()) * 1000

    @property
    def end_ms(self) -> int:
        """Of ``end``, Unix time."""
        return int(self.end.timestamp()) * 1000

    def __str__(self) -> str:
        return f"{self.year:04}-{self.number:02}"
