"""The root cause of a failure on Spark in one line: the last link of its chain of causes."""

import re
from dataclasses import dataclass

from opentalos.model import errors
from opentalos.model.errors import ERRORS_BY_NAME
from opentalos.model.names import SYSTEM_TOPICS

_TEXT_MAX = 500  # characters of a cause that are shown
# The line that ends a Python traceback, and a link of a Java stack: "a.b.SomeError: what happened".
_LINK = re.compile(
    r"^(?:[ \t]*+Caused by: |pyspark\.\S+: )?"
    r"(?P<kind>(?:[A-Za-z_][\w$]*\.)+[A-Z][\w$]*|[A-Z]\w*(?:Error|Exception|Interrupt|Exit))"
    r"(?:: (?P<text>.*))?$",
    re.MULTILINE,
)
# The machine was too busy to start Python within the ten seconds that Spark allows (not settable).
_LATE_WORKER = "Python worker failed to connect back"
_TRACEBACK = "Traceback (most recent call last):"
_WRAPPERS = ("PythonException", "StreamingQueryException", "SparkException", "AnalysisException")


@dataclass(frozen=True, slots=True)
class Cause:
    """``kind`` is the class's name; ``passing``: a retry may succeed."""

    kind: str
    text: str

    @property
    def passing(self) -> bool:
        if _LATE_WORKER in self.text or self._not_created_yet:
            return True
        own = ERRORS_BY_NAME.get(self.kind)
        return own is not None and issubclass(own, errors.Unavailable | errors.OutcomeUnknown)

    @property
    def _not_created_yet(self) -> bool:
        """A new server creates a system topic when it first writes to it."""
        gone = self.kind == errors.TopicNotExist.__name__
        return gone and any(f"topic {name} " in self.text for name in SYSTEM_TOPICS)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


def cause_of(error: BaseException) -> Cause:
    """The cause of an exception of Spark or of a pipeline."""
    if isinstance(error, errors.TalosError):
        return Cause(type(error).__name__, _line(str(error)))
    return cause_in(f"{type(error).__name__}: {error}")


def cause_in(text: str) -> Cause:
    """The cause in a text with Java stacks and Python tracebacks.

    An OpenTalos error is preferred. Otherwise a Python traceback is more precise than the Java
    stack around it, and its last one is the error as it reached the task's root.
    """
    everywhere = list(_LINK.finditer(text))
    own = [link for link in everywhere if link["kind"].rpartition(".")[2] in ERRORS_BY_NAME]
    if own:
        return _cause(own[-1])
    _, found, python = text.rpartition(_TRACEBACK)
    in_python = _LINK.search(python) if found else None
    if in_python is not None:
        return _cause(in_python)
    for link in reversed(everywhere):
        if link["text"] and link["kind"].rpartition(".")[2] not in _WRAPPERS:
            return _cause(link)
    return _cause(everywhere[-1]) if everywhere else Cause("Error", _line(text))


def _cause(link: "re.Match[str]") -> Cause:
    return Cause(link["kind"].rpartition(".")[2], _line(link["text"] or ""))


def _line(text: str) -> str:
    whole = " ".join(text.split())
    return whole if len(whole) <= _TEXT_MAX else f"{whole[:_TEXT_MAX]} ..."
