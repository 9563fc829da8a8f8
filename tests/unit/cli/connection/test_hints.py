"""Errors of a server, and the hints on them."""

import json

import pytest

from opentalos.cli.connection.hints import explain
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.model.errors import (
    ConsumerGroupWorking,
    OutcomeUnknown,
    PermissionDenied,
    RequestError,
    TalosError,
    ThrottleRejected,
    TopicExists,
    TopicNotExist,
    Unavailable,
)
from opentalos.model.message import OffsetRange
from opentalos.sdk.errors import ConnectFailed, PositionExpired
from opentalos.sdk.rest_client import RestClient, _error_of

SERVER = ServerOptions(url="http://127.0.0.1:1", key="AK1:hidden")


def problem(title: str, **more: object) -> bytes:
    return json.dumps({"title": title, "detail": "the reason", **more}).encode()


@pytest.mark.parametrize(
    ("status", "text", "kind", "says"),
    [
        (409, problem("TopicExists"), TopicExists, "the reason"),
        (429, problem("ThrottleRejected"), ThrottleRejected, "the reason"),
        (500, problem("InternalError", outcome="unknown"), OutcomeUnknown, "the reason"),
        (503, problem("NewName", outcome="not done", retry_safe=True), Unavailable, "the reason"),
        (422, problem("NewName", outcome="not done", retry_safe=False), RequestError, "the reason"),
        (404, b"not here", RequestError, "the server replied with status 404: not here"),
        (502, b"", OutcomeUnknown, "the server replied with status 502: no reason given"),
        (400, problem("__doc__"), RequestError, "the reason"),
        (400, b"[]", RequestError, "400"),
    ],
)
def test_a_problem_document_becomes_the_error_it_names(
    status: int, text: bytes, kind: type[TalosError], says: str
) -> None:
    found = _error_of(status, text)
    assert type(found) is kind
    assert says in str(found)


def test_a_rejected_field_is_named_without_the_part_of_the_request() -> None:
    text = json.dumps({"title": "BadRequest", "detail": "body.name must be a string"}).encode()
    assert str(_error_of(400, text)) == "name must be a string"


@pytest.mark.parametrize(
    ("error", "arguments", "says"),
    [
        (ConnectFailed("x"), {}, "is the server running"),
        (PermissionDenied("x"), {}, "talos acl grant"),
        (ConsumerGroupWorking("x"), {}, "until its lease expires"),
        (Unavailable("x"), {}, "try again"),
        (PositionExpired("t", 0, 1, OffsetRange(5, 9)), {"topic": "t"}, "--from start"),
        (
            PositionExpired("t", 0, 1, None),
            {"topic": "t", "group_name": "g"},
            "talos group reset t g --to start",
        ),
    ],
)
def test_errors_name_the_remedy(error: TalosError, arguments: dict[str, object], says: str) -> None:
    explain(error, SERVER, arguments)
    (note,) = error.__notes__
    assert says in note
    assert "hidden" not in note


def test_unknown_topics_suggest_similar_names_or_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {"topics": [{"name": name} for name in ("orders", "border", "payments")]}
    monkeypatch.setattr(RestClient, "__call__", lambda *_, **__: topics)
    for asked, says in (
        ("ordrs", "did you mean orders"),
        ("CLx/payment", "did you mean payments?"),
        ("zzz", "list the visible topics with"),
        ("readers", "list the visible topics with"),  # shares letters with orders, no more
    ):
        error = TopicNotExist("no")
        explain(error, SERVER, {"topic": asked})
        assert error.__notes__[0].startswith(says)


def test_who_sees_no_topic_is_shown_how_to_create_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestClient, "__call__", lambda *_, **__: {"topics": [], "tables": []})
    error = TopicNotExist("no")
    explain(error, SERVER, {"topic": "orders"})
    assert error.__notes__ == ["you see no topics yet; create one with talos topic create orders"]


def test_an_unreachable_server_adds_no_second_error(monkeypatch: pytest.MonkeyPatch) -> None:
    error = TopicNotExist("no")
    explain(error, SERVER, {"topic": "orders"})
    assert error.__notes__ == ["list the visible topics with talos topic list"]


def test_other_errors_get_no_hint() -> None:
    error = TopicExists("there is one")
    explain(error, SERVER, {"topic": "t"})
    assert not hasattr(error, "__notes__")
