"""The official Python SDK, unmodified and in its own processes, against a real server."""

from typing import Any

import pytest
from tests.compat.conftest import Sdk
from tests.server_process import ROOT_KEY, Key, ServerProcess

from opentalos.wire._generated.common import ErrorCode

CODECS = ["NONE", "SNAPPY", "GZIP", "ZSTD"]


def by_call(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {line.pop("call"): line for line in lines}


@pytest.mark.parametrize("codec", CODECS)
def test_simple_clients_round_trip_every_codec(sdk: Sdk, codec: str) -> None:
    sdk.topic(f"simple-{codec}", partitions=2)
    payloads = [f"{codec} message {number} " + "x" * number for number in range(250)]
    result = sdk.run(
        "simple_roundtrip",
        topic=f"simple-{codec}",
        partition=1,
        payloads=payloads,
        batch=100,
        config={"galaxy.talos.producer.compression.type": codec},
        start=0,
    )[0]
    assert result["offsets"] == list(range(250))
    assert result["payloads"] == payloads
    assert result["sequence"] == [f"s{number}" for number in range(250)]
    assert result["behind"] == list(range(249, -1, -1))
    assert all(
        before <= after
        for before, after in zip(result["appended"], result["appended"][1:], strict=False)
    )


def test_a_fetch_from_the_start_gives_the_first_offset(sdk: Sdk) -> None:
    sdk.topic("from-start")
    result = sdk.run(
        "simple_roundtrip", topic="from-start", partition=0, payloads=["a", "b", "c"], start=-1
    )[0]
    assert result["offsets"] == [0, 1, 2]


def test_every_administration_call_answers(sdk: Sdk, server: ServerProcess) -> None:
    answers = by_call(sdk.run("admin_tour", topic="admin-tour", grantee="reader"))
    assert answers["create twice"]["code"] == "TOPIC_EXIST"
    assert answers["describe"] == {"resource": answers["create"]["resource"], "partitions": 3}
    assert answers["attribute"] == {"partitions": 3, "retention": 7200}
    assert "admin-tour" in answers["list"]["names"]
    assert answers["change"]["partitions"] == 4
    assert answers["granted"]["mask"] == 6
    assert answers["revoked"]["mask"] == 0
    assert answers["offsets"]["ranges"] == [[0, -1], [1, -1], [2, -1], [3, -1]]
    assert answers["partition offset"] == {"start": 0, "end": -1}
    assert answers["time lookup"]["offset"] == 0
    assert answers["schedule"] == {
        "partitions": [0, 1, 2, 3],
        "hosts": [f"127.0.0.1:{server.port}"],
        "names": ["admin-tour"],
    }
    assert answers["describe deleted"]["code"] == "TOPIC_NOT_EXIST"


def test_the_other_services_answer_through_the_sdks_own_code(sdk: Sdk) -> None:
    sdk.topic("services")
    sdk.run(
        "simple_roundtrip",
        topic="services",
        partition=0,
        payloads=["a", "b", "c"],
        start=0,
    )
    answers = by_call(sdk.run("service_tour", topic="services"))
    said: dict[str, Any] = {
        name: line.get("answer", line.get("code")) for name, line in answers.items()
    }
    assert said["queryUserQuota"] is True
    assert said["describeTopic"] == "services"
    assert said["queryTopicQuota"] == 500
    assert said["getPermission"] == 0
    assert said["createReplicationTopic"] == "BAD_REQUEST"
    assert "sourceTopicInfoList" in answers["createReplicationTopic"]["text"]
    assert said["lockWorker"] is True
    assert said["lockPartition"] == [[0], []]
    assert said["lockPartition of another's"] == [[], [0]]
    assert said["renew of another's"] == [True, [0]]
    assert said["queryWorker"] == {"worker-a": [0], "worker-b": []}
    assert said["getWorkerId"] == "worker-a"
    assert said["queryOffset before a commit"] == -1
    assert said["updateOffset by another"] is False
    assert said["updateOffset"] is True
    assert said["updateOffset beyond the end"] in (False, "UNEXPECTED_MESSAGE_OFFSET")
    assert said["queryOffset"] == 1
    assert said["queryConsumerGroup"] == ["tour-group"]
    assert said["getTopicConsumeUnit"] == [[0, 1, 1]]
    assert [item[0] for item in said["getPartitionsOffset"]] == [0, 77]
    assert said["getPartitionsOffset"][1][1] not in (None, 0)
    assert said["getDataPreview"] == 3
    assert said["prepare"] == ErrorCode.NOT_TRANSACTION_TOPIC_ERROR
    assert "not supported" in answers["prepare"]["text"]


@pytest.mark.parametrize("codec", CODECS)
def test_the_high_level_producer_is_confirmed(sdk: Sdk, codec: str) -> None:
    sdk.topic(f"producer-{codec}", partitions=3)
    result = sdk.run(
        "talos_producer",
        topic=f"producer-{codec}",
        payloads=[f"m{number}" for number in range(1000)],
        config={"galaxy.talos.producer.compression.type": codec},
    )[0]
    assert result == {"succeeded": 1000, "failed": []}


def test_a_producer_stops_when_its_topic_is_deleted(sdk: Sdk, server: ServerProcess) -> None:
    sdk.topic("deleted-under-it")
    result = sdk.run("delete_under_producer", topic="deleted-under-it", payloads=["a", "b"])
    assert result[0] == {"succeeded": 2, "failed": []}
    assert result[1] == {"gone": True, "active": False}


def test_a_wrong_secret_is_refused_as_invalid_authentication(sdk: Sdk) -> None:
    lines = sdk.run("error_codes", key=Key(ROOT_KEY.key_id, "wrong"), topic="any")
    assert lines[0]["status"] == 401


def test_errors_have_the_documented_codes(sdk: Sdk) -> None:
    sdk.topic("errors")
    answers = by_call(sdk.run("error_codes", topic="errors"))
    expected = {
        "describe unknown topic": "TOPIC_NOT_EXIST",
        "create with slash": "INVALID_NAME_ERROR",
        "create with dots": "INVALID_NAME_ERROR",
        "create with space": "INVALID_NAME_ERROR",
        "create with NUL": "INVALID_NAME_ERROR",
        "create 10 KB": "INVALID_NAME_ERROR",
        "create without partitions": "INVALID_TOPIC_PARAMS",
        "create with too many partitions": "INVALID_TOPIC_PARAMS",
        "put to a missing partition": "PARTITION_NOT_EXIST",
        "get beyond the end": "MESSAGE_OFFSET_OUT_OF_RANGE",
        "commit of a transaction": ErrorCode.NOT_TRANSACTION_TOPIC_ERROR,
    }
    assert {name: answers[name].get("code") for name in expected} == expected
