"""The unmodified third-party SDS client against a real server: what works, and what is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import ROOT, SDS_PYTHON, Sdk, sdk_environment
from tests.compat.test_sdk_access import new_key
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import completed

from opentalos.wire._generated.sds import ErrorCode, TableState

ROWS = 23
ROWS_SLOW = 70  # more than a page, and than the rate lets through at once
ENABLED, DISABLED = TableState.ENABLED, TableState.DISABLED
INT64_MAX = 2**63 - 1


@pytest.fixture(scope="module")
def tour(sds: Sdk) -> dict[str, Any]:
    """What each step of the tour gave."""
    lines = sds.run("table_tour", streams={}, shards=4)
    return {name: answer for line in lines for name, answer in line.items()}


@pytest.fixture(scope="module")
def errors(sds: Sdk, server: ServerProcess) -> dict[str, Any]:
    """How each wrong call was refused."""
    stranger = new_key(server, "user", "create", "stranger")
    keys = {"key_id": stranger.key_id, "secret": stranger.secret}
    lines = sds.run("table_errors", streams={}, shards=4, stranger=keys)
    return {line["name"]: line["told"] for line in lines}


def test_tables_are_made_changed_listed_and_dropped(tour: dict[str, Any]) -> None:
    assert tour["create"] == ["tour", ENABLED, 1]
    assert tour["mine"] is True
    assert tour["state"] == ENABLED
    attributes = {"count": 5, "flag": 8, "grp": 8, "id": 5, "token": 8}
    assert tour["describe"] == [
        ["grp"], True, [["id", False]], attributes, 4, ["token"], "first", {"app": [1, 2]},
    ]  # fmt: skip
    assert tour["alter"] == [107, 3600, "second"]
    assert tour["splits"] >= 1
    assert tour["service"] == [1, True]
    assert tour["status"] == [ENABLED, ROWS, True, True]
    assert tour["disabled"] == DISABLED
    row = {"grp": "g", "id": 7, "count": 7, "flag": "f1", "token": "t7"}
    assert tour["enabled"] == [ENABLED, row]
    assert tour["dropped"] is True


def test_records_are_written_read_counted_and_removed(tour: dict[str, Any]) -> None:
    row = {"grp": "g", "id": 1, "token": "t", "flag": "f", "count": 5}
    assert tour["put"] is True
    assert tour["get"] == row
    assert tour["get_some"] == {"count": 5}
    assert tour["get_none"] == {}
    assert tour["increment"] == {"count": 8}
    merged = {**row, "count": 8, "token": "u"}
    assert tour["merged"] == merged
    assert tour["remove_column"] is True
    del merged["flag"]
    assert tour["left"] == merged
    assert tour["remove"] is True
    assert tour["gone"] == {}
    assert tour["sets"] == {"grp": "g", "id": 2, "more": ["a", "b"]}


def test_conditions_decide_about_writes(tour: dict[str, Any]) -> None:
    assert tour["conditional_puts"] == [False, True, False, False, True]
    assert tour["conditional_removes"] == [False, True]


def test_items_of_a_batch_are_independent(tour: dict[str, Any]) -> None:
    assert tour["batch"] == [ROWS, True]
    successes, amounts, code, removed = tour["mixed"]
    assert successes == [True, True, False, True]
    assert (amounts, code, removed) == ({"count": 10}, ErrorCode.VALIDATION_FAILED, True)


def test_scans_go_page_by_page_in_order(tour: dict[str, Any]) -> None:
    assert tour["scan"] == list(range(ROWS))[::-1]
    assert tour["reverse"] == [5, 6, 7, 8]
    assert tour["filtered"] == [8, 7]
    assert tour["page"] == [5, {"grp": "g", "id": 17}, False]
    assert tour["counted"] == {"count": ROWS}


def test_an_index_leads_to_its_rows(tour: dict[str, Any]) -> None:
    assert tour["index"] == list(range(1, ROWS, 2))


CODES = {
    "no-table": ErrorCode.RESOURCE_NOT_FOUND,
    "missing-key": ErrorCode.VALIDATION_FAILED,
    "unknown-column": ErrorCode.VALIDATION_FAILED,
    "wrong-type": ErrorCode.VALIDATION_FAILED,
    "wrong-key-type": ErrorCode.VALIDATION_FAILED,
    "unknown-attribute": ErrorCode.VALIDATION_FAILED,
    "remove-unknown": ErrorCode.VALIDATION_FAILED,
    "long-key": ErrorCode.SIZE_EXCEED,
    "large-record": ErrorCode.SIZE_EXCEED,
    "overflow": ErrorCode.VALIDATION_FAILED,
    "increment-text": ErrorCode.VALIDATION_FAILED,
    "bad-condition": ErrorCode.VALIDATION_FAILED,
    "unknown-index": ErrorCode.VALIDATION_FAILED,
    "huge-batch": ErrorCode.SIZE_EXCEED,
    "not-supported": ErrorCode.UNSUPPORTED_OPERATION,
    "exists": ErrorCode.RESOURCE_ALREADY_EXISTS,
    "bad-name": ErrorCode.VALIDATION_FAILED,
    "no-schema": ErrorCode.VALIDATION_FAILED,
    "no-topic": ErrorCode.RESOURCE_NOT_FOUND,
    "changed-key": ErrorCode.VALIDATION_FAILED,
    "retyped-index": ErrorCode.VALIDATION_FAILED,
    "drop-nothing": ErrorCode.RESOURCE_NOT_FOUND,
    "no-snapshots": ErrorCode.UNSUPPORTED_OPERATION,
    "no-clones": ErrorCode.UNSUPPORTED_OPERATION,
    "no-quota-applications": ErrorCode.UNSUPPORTED_OPERATION,
    "disabled": ErrorCode.RESOURCE_UNAVAILABLE,
    "stranger": ErrorCode.RESOURCE_NOT_FOUND,
}
# With a word of the reason: the client shows its user the status line alone.
STATUSES = {
    "large-body": (413, "524288 bytes"),
    "wrong-secret": (401, "wrong signature"),
    "unknown-key": (401, "unknown key"),
    "skewed": (412, "clock"),
}


@pytest.mark.parametrize("name", CODES)
def test_a_wrong_call_gets_its_code(errors: dict[str, Any], name: str) -> None:
    kind, code, text = errors[name]
    assert (kind, code) == ("code", CODES[name]), text
    assert text


@pytest.mark.parametrize("name", STATUSES)
def test_what_is_no_call_gets_its_status(errors: dict[str, Any], name: str) -> None:
    kind, status, answer = errors[name]
    wanted, words = STATUSES[name]
    assert (kind, status) == ("status", wanted)
    assert words in answer


def test_errors_are_all_judged_and_nothing_was_applied(errors: dict[str, Any]) -> None:
    assert errors["nothing-applied"] == INT64_MAX
    assert set(errors) == {"nothing-applied", *CODES, *STATUSES}


def test_the_missing_topic_is_named(errors: dict[str, Any]) -> None:
    assert "no-such-topic" in errors["no-topic"][2]


def test_the_clients_scanner_gets_through_a_table_that_is_over_its_rate(sds: Sdk) -> None:
    said = sds.run("table_slow", streams={}, shards=1, rows=ROWS_SLOW)
    assert said == [{"ids": list(reversed(range(ROWS_SLOW)))}]


def test_a_table_that_is_full_refuses_what_grows(sds: Sdk) -> None:
    said = sds.run("table_full", streams={}, shards=1, quota=1_500)
    answer = {name: item for line in said for name, item in line.items()}
    full, wrong = int(ErrorCode.QUOTA_EXCEED), int(ErrorCode.VALIDATION_FAILED)
    assert answer["none"] == wrong
    assert answer["told"] == 1_500
    assert answer["puts"] == [0, 0, full, full]
    assert answer["batch"] == [0, full, 0]
    assert answer["lower"] == wrong
    assert answer["again"] == 0


def test_the_example_of_the_reference_runs(server: ServerProcess, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "sds.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    words = {"http://127.0.0.1:9420": server.url, "KEYID": ROOT_KEY.key_id}
    for word, real in {**words, "SECRET": ROOT_KEY.secret}.items():
        assert code.count(word) == 1
        code = code.replace(word, real)
    (tmp_path / "example.py").write_text(code)
    done = completed([SDS_PYTHON, tmp_path / "example.py"], env=sdk_environment())
    assert done.stdout == "{'name': 'ann', 'visits': 1}\n", done.stderr
