"""Log output on stderr, one line per event: a text with ``key=value`` fields, or a JSON object."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from math import isfinite

from opentalos.gateway.http.request_scope import current_request_id

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LINE_CHARS_MAX = 16_000
_FIELD_CHARS_MAX = 4_000  # of one value in JSON; cutting the whole line would break the JSON
_TALKATIVE = ("kazoo",)  # at debug level they log credentials or every heartbeat


def _time_of(record: logging.LogRecord) -> str:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{stamp}.{int(record.msecs):03d}Z"


def _fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    """The ``extra`` fields, and the id of the request that the event belongs to."""
    fields = {
        key: value
        for key, value in vars(record).items()
        if key not in _STANDARD and not isinstance(value, dict)
    }
    request = "request" not in fields and current_request_id()
    return {**fields, "request": request} if request else fields


class LineFormatter(logging.Formatter):
    """The text, then the ``extra`` fields; a traceback stays on the same line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message contains."""
        parts = [
            _time_of(record),
            record.levelname.lower(),
            record.name,
            _one_line(record.getMessage()),
        ]
        parts += [f"{key}={value!r}" for key, value in _fields_of(record).items()]
        if record.exc_info:
            parts.append(f"exception={self.formatException(record.exc_info)!r}")
        return " ".join(parts)[:_LINE_CHARS_MAX]


class JsonFormatter(logging.Formatter):
    """One JSON object per line; values of other types are strings."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message contains."""
        event: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in _fields_of(record).items():
            event[key if key not in event else f"{key}_"] = value
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps({key: _bounded(value) for key, value in event.items()})


def _bounded(value: object) -> object:
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    return str(value)[:_FIELD_CHARS_MAX]


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def set_up_logging(level: str, form: str = "text") -> None:
    """Send all loggers to stderr; the server process calls this once."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(root.level, logging.INFO))
    logging.raiseExceptions = False  # a broken stderr must not disturb the server
