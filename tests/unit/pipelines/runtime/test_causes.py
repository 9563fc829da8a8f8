"""The one line that a failure ends with."""

import pytest

from opentalos.model.errors import ConfigError, PartitionNotServing, TopicNotExist
from opentalos.pipelines.runtime.causes import Cause, cause_in, cause_of

PYTHON_IN_JAVA = """\
[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE]
Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "x.py", line 12, in main
    func()
opentalos.model.errors.TopicNotExist: topic a/b does not exist

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "y.py", line 1, in <module>
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON] it failed
 SQLSTATE: 38000
=== Streaming Query ===
\tat org.apache.spark.sql.execution.streaming.MicroBatchExecution.f(M.scala:1)
Caused by: java.lang.IllegalStateException: not this one
"""
JAVA_ONLY = """\
[STREAM_FAILED] Query [id = a] terminated with exception: Job aborted
org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.X.y(Z.scala:1)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
"""


def test_the_error_of_our_own_is_found_in_pythons_traceback() -> None:
    assert cause_in(PYTHON_IN_JAVA) == Cause("TopicNotExist", "topic a/b does not exist")


def test_the_last_cause_of_java_is_reported() -> None:
    assert str(cause_in(JAVA_ONLY)) == "ConnectException: Connection refused"


@pytest.mark.parametrize("text", ["", "nothing known\nin here", "a" * 10_000])
def test_text_without_a_cause_is_reported_in_one_line(text: str) -> None:
    shown = str(cause_in(text))
    assert "\n" not in shown
    assert len(shown) < 600


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (PartitionNotServing("opening"), True),
        (ConfigError("wrong"), False),
        (RuntimeError("Traceback (most recent call last):\na.Unavailable: later\n"), True),
        (ValueError("wrong"), False),
        (TopicNotExist("topic clicks does not exist"), False),
        (TopicNotExist("topic __usage does not exist"), True),
        (RuntimeError("[STREAM_FAILED] Query: Python worker failed to connect back."), True),
    ],
)
def test_only_what_may_pass_is_waited_for(error: Exception, passing: bool) -> None:
    assert cause_of(error).passing is passing
