"""A TOML file of settings, read with all its faults and the line of each."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any, Final

from opentalos.model.checks import integer, plural, shown_value
from opentalos.pipelines.billing.plans.days import parse_day
from opentalos.pipelines.billing.plans.toml_lines import Path, line_at, lines_of
from opentalos.pipelines.lake.periods.month import Month

FILE_BYTES_MAX: Final = 1 << 20
_NO_LINES: Final[Mapping[Path, int]] = {}


@dataclass
class Faults:
    """What is wrong in the files read so far: each text begins with FILE:LINE."""

    texts: list[str] = field(default_factory=list)


class TomlTable:
    """One table: gives values of the wanted type, and notes what is missing, wrong or unknown.

    A value that is wrong is noted and read as None, so that one reading finds all faults.
    """

    def __init__(
        self,
        file: str,
        values: Mapping[str, Any],
        faults: Faults,
        *,
        lines: Mapping[Path, int] = _NO_LINES,
        path: Path = (),
    ) -> None:
        self.file, self._values, self._faults = file, values, faults
        self._lines, self._path = lines, path
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def line(self, name: str = "") -> int:
        """The line of a value, or of the table itself."""
        return line_at(self._lines, (*self._path, name) if name else self._path)

    def fault(self, text: str, name: str = "") -> None:
        """Note what is wrong with a value, or with the table."""
        self._faults.texts.append(f"{self.file}:{self.line(name)}: {text}")

    def text(self, name: str, default: str | None = None) -> str | None:
        """A text that is not empty."""
        value = self._value(name, default)
        if value is None or value is default or (isinstance(value, str) and value.strip()):
            return value
        self._wrong(name, "must be a non-empty string in quotes")
        return None

    def integer(self, name: str, maximum: int, default: int | None = None) -> int | None:
        """An integer from 0 to ``maximum``."""
        value = self._value(name, default)
        try:
            return None if value is None else integer(value, 0, maximum)
        except ValueError as error:
            self._wrong(name, str(error))
            return None

    def amount(
        self, name: str, maximum: Decimal, decimals: int, default: Decimal | None = None
    ) -> Decimal | None:
        """A decimal number from 0 to ``maximum``, exactly as it is written."""
        value = self._value(name, default)
        if value is None:
            return None
        if type(value) is int or isinstance(value, Decimal):
            number = Decimal(value)
            if number.is_finite() and 0 <= number <= maximum:
                if -int(number.as_tuple().exponent) <= decimals:
                    return number
                self._wrong(
                    name, f"must have at most {decimals} decimal {plural('place', decimals)}"
                )
                return None
        self._wrong(name, f"must be a number from 0 to {maximum:,}")
        return None

    def month(self, name: str, default: Month | None = None) -> Month | None:
        """A month as a text YYYY-MM."""
        if name not in self._values and default is not None:
            return default
        text = self.text(name)
        try:
            return None if text is None else Month.parse(text)
        except ValueError as error:
            self.fault(f"{name}: {error}", name)
            return None

    def day(self, name: str, default: date | None = None) -> date | None:
        """A day of UTC as a text YYYY-MM-DD, or YYYY-MM for the first of a month."""
        if name not in self._values and default is not None:
            return default
        text = self.text(name)
        try:
            return None if text is None else parse_day(text)
        except ValueError as error:
            self.fault(f"{name}: {error}", name)
            return None

    def raw(self, name: str) -> Any:
        """A value of any type, None if it is not there."""
        self._asked.add(name)
        return self._values.get(name)

    def table(self, name: str) -> "TomlTable | None":
        """A table below this one."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, Mapping):
            return self._below(value, (*self._path, name))
        self._wrong(name, f"must be a table [{name}]")
        return None

    def tables(self, name: str) -> Iterator["TomlTable"]:
        """The tables of an array, in order."""
        value = self.raw(name)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            self._wrong(name, f"must be an array of tables [[{name}]]")
            return
        for index, item in enumerate(value):
            yield self._below(item, (*self._path, name, index))

    def end(self) -> None:
        """Note every key that was not asked for."""
        for name in self._values:
            if name not in self._asked:
                known = ", ".join(sorted(self._asked))
                self.fault(f"unknown key {name}; known here: {known}", name)

    def _below(self, values: Mapping[str, Any], path: Path) -> "TomlTable":
        return TomlTable(self.file, values, self._faults, lines=self._lines, path=path)

    def _value(self, name: str, default: object) -> Any:
        value = self.raw(name)
        if value is None and default is None:
            self.fault(f"{name} is missing")
        return default if value is None else value

    def _wrong(self, name: str, rule: str) -> None:
        self.fault(f"{name} {rule}, not {shown_value(self._values[name])}", name)


def read_toml(path: FilePath, faults: Faults) -> TomlTable | None:
    """The whole file; None, with a fault noted, if it cannot be read or is not TOML."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        faults.texts.append(f"{path}: cannot read it: {reason}")
        return None
    if len(raw) > FILE_BYTES_MAX:
        faults.texts.append(f"{path}: has more than {FILE_BYTES_MAX:,} bytes")
        return None
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        faults.texts.append(_toml_error(path, text, str(error)))
        return None
    return TomlTable(str(path), values, faults, lines=lines_of(text))


def _toml_error(path: FilePath, text: str, reason: str) -> str:
    """The parser names the line at the end of its text: bring it to the front."""
    what, _, place = reason.rpartition(" (at ")
    line = "".join(filter(str.isdigit, place.partition(",")[0]))
    return f"{path}:{line or text.count(chr(10)) + 1}: {what or reason}"
