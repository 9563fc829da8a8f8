"""Log lines: one line per event on stderr, ``key=value`` after time, level and logger."""

import logging
import sys
import time

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LINE_CHARS_MAX = 16_000


class LineFormatter(logging.Formatter):
    """Text first, then what was given as ``extra``; a traceback is kept on the same line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        parts = [
            f"{stamp}.{int(record.msecs):03d}Z",
            record.levelname.lower(),
            record.name,
            _one_line(record.getMessage()),
        ]
        parts += [
            f"{key}={value!r}"
            for key, value in vars(record).items()
            if key not in _STANDARD and not isinstance(value, dict)
        ]
        if record.exc_info:
            parts.append(f"exception={self.formatException(record.exc_info)!r}")
        return " ".join(parts)[:_LINE_CHARS_MAX]


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def set_up_logging(level: str) -> None:
    """Send every logger to stderr; called once, by the server process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # a broken stderr must not disturb the server
