"""Days of UTC within a month, and what a part of a month costs of a whole one."""

import re
from datetime import date
from itertools import pairwise
from typing import Final, NamedTuple

from opentalos.pipelines.lake.periods.month import Month

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class Days(NamedTuple):
    """The days ``begin`` to before ``end`` of a month of ``of`` days, counted from 0."""

    begin: int
    end: int
    of: int

    @property
    def whole(self) -> bool:
        """Whether they are the whole month."""
        return self.end - self.begin == self.of

    def share(self, count: int) -> int:
        """The share of a count that is for a month.

        A difference of two rounded sums, so the shares of any split of a month add up to ``count``.
        """
        return count * self.end // self.of - count * self.begin // self.of

    def dates(self, month: Month) -> tuple[date, date]:
        """The first day, and the day after the last."""
        if self.whole:
            return month.begin.date(), month.end.date()
        first = month.begin.date()
        after = month.end.date() if self.end == self.of else first.replace(day=self.end + 1)
        return first.replace(day=self.begin + 1), after


WHOLE: Final = Days(0, 1, 1)


def day_number(day: date, month: Month) -> int:
    """Of a day, from 0 at the month's first; negative before it."""
    return (day - month.begin.date()).days


def days_of(month: Month, starts: set[int]) -> list[Days]:
    """The month, split at these days. Days that are not within the month split nothing."""
    length = (month.end - month.begin).days
    inner = {start for start in starts if 0 < start < length}
    return [Days(begin, end, length) for begin, end in pairwise(sorted({0, length} | inner))]


def parse_day(text: str) -> date:
    """YYYY-MM-DD, or YYYY-MM for the first of a month. Raises: ValueError: it is neither."""
    if not _DAY.fullmatch(text):
        return Month.parse(text).begin.date()
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a day: {error}") from error
