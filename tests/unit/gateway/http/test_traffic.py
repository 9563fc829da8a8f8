"""Failed requests are counted and logged, within a bound."""

import logging
from typing import cast

import pytest

from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.traffic import Traffic
from opentalos.model.histogram import Histogram

LINES_MAX = 3
HEAD = b"HTTP/1.1 404 Not Found\r\n"


def exchange(failure: str = "") -> Exchange:
    made = Exchange(
        cast(HttpConnection, None), b"GET", b"/a/b?secret=1", {b"authorization": b"Basic c2VjcmV0"}
    )
    made.failure = failure
    return made


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "opentalos.access")
    return caplog


def test_a_failed_request_is_one_line_without_query_and_headers(
    lines: pytest.LogCaptureFixture,
) -> None:
    traffic = Traffic(LINES_MAX)
    traffic.ended(exchange("TopicNotExist"), HEAD, "10.0.0.7")
    (record,) = lines.records
    fields = vars(record)
    assert (fields["status"], fields["error"]) == ("404", "TopicNotExist")
    assert (fields["peer"], fields["method"], fields["path"]) == ("10.0.0.7", "GET", "/a/b")
    assert "secret" not in str(fields)
    assert "c2VjcmV0" not in str(fields)
    assert traffic.failures == {"TopicNotExist": 1}


def test_a_good_request_is_a_line_at_debug_only(lines: pytest.LogCaptureFixture) -> None:
    traffic = Traffic(LINES_MAX)
    traffic.refresh()
    traffic.ended(exchange(), HEAD, "")
    assert not lines.records
    lines.set_level(logging.DEBUG, "opentalos.access")
    traffic.refresh()
    traffic.ended(exchange(), HEAD, "")
    assert [record.levelno for record in lines.records] == [logging.DEBUG]
    assert not traffic.failures


def test_more_lines_than_allowed_are_counted(
    lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("opentalos.gateway.http.traffic.time.perf_counter", lambda: now_s)
    traffic = Traffic(LINES_MAX)
    for _ in range(10):
        traffic.ended(exchange("BadRequest"), HEAD, "")
    traffic.refused("", 400, "malformed")
    assert len(lines.records) == LINES_MAX
    now_s += 1.0
    traffic.refused("", 400, "malformed")
    assert vars(lines.records[-1])["left_out"] == 8
    assert traffic.failures == {"BadRequest": 10, "http_400": 2}


def test_a_reply_is_timed_only_for_an_observer() -> None:
    traffic, histogram = Traffic(LINES_MAX), Histogram((0.5, 1e9))
    asked = exchange()
    asked.timed = histogram
    traffic.ended(asked, HEAD, "")
    assert histogram.counts == [0, 1, 0]
    assert histogram.sum > 0
