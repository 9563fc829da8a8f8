"""Log lines stay lines."""

import logging
import sys

from opentalos.server.log_setup import LineFormatter


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "opentalos.x", "levelname": "INFO", "msg": message})
    vars(made).update(extra)
    made.created, made.msecs = 0.0, 7.0
    return made


def test_a_line_has_time_level_logger_text_and_fields() -> None:
    line = LineFormatter().format(record("done", count=3, name_="a b"))
    assert line == "1970-01-01T00:00:00.007Z info opentalos.x done count=3 name_='a b'"


def test_nothing_breaks_a_line() -> None:
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        made = record("a\nb", field="c\nd", exc_info=sys.exc_info())
    line = LineFormatter().format(made)
    assert "\n" not in line
    assert "ValueError" in line
