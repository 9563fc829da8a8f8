"""Settings of a run: where its checkpoints are, and how much a batch has."""

from dataclasses import replace
from pathlib import Path

from opentalos.pipelines.pipeline import (
    CHECKPOINT,
    MESSAGES_PER_TASK_MAX,
    MESSAGES_PER_TRIGGER_MAX,
    PipelineSettings,
)
from opentalos.pipelines.service_events.service_topic import limits


def settings(home: Path, **options: str) -> PipelineSettings:
    return PipelineSettings(url="http://a:1", key="AK1:s", home=home, options=options)


def test_the_default_limit_of_a_trigger_grows_with_the_tasks() -> None:
    given = PipelineSettings(url="", key="", home=Path(), messages_per_task=MESSAGES_PER_TASK_MAX)
    assert given.limit_of_trigger(1) == given.limit_of_trigger(2) == MESSAGES_PER_TRIGGER_MAX
    assert given.limit_of_trigger(40) == 10_000_000
    limited = PipelineSettings(url="", key="", home=Path(), max_messages_per_trigger=7)
    assert limited.limit_of_trigger(40) == 7


def test_service_topics_are_read_by_all_executors_into_a_lake() -> None:
    lake = "delta+hdfs://n:9820/lake"
    given = PipelineSettings(
        url="", key="", home=Path(), lake=lake, messages_per_task=MESSAGES_PER_TASK_MAX
    )
    assert limits(given, 40) == {"tasks": "40", "maxMessagesPerTrigger": "10000000"}
    limited = replace(given, max_messages_per_trigger=7, messages_per_task=0)
    assert limits(limited, 40) == {"tasks": "40", "maxMessagesPerTrigger": "7"}


def test_service_topics_below_home_have_the_limit_of_one_machine() -> None:
    given = replace(settings(Path()), messages_per_task=MESSAGES_PER_TASK_MAX)
    assert limits(given, 40) == {"maxMessagesPerTrigger": str(MESSAGES_PER_TRIGGER_MAX)}


def test_a_checkpoint_below_home_is_on_this_machine_whatever_the_default_file_system_is() -> None:
    assert settings(Path("/a b/home")).checkpoint_url("x") == "file:///a b/home/checkpoints/x"


def test_a_checkpoint_may_be_elsewhere() -> None:
    given = settings(Path("/home"), **{CHECKPOINT: "hdfs://n:1/c/"})
    assert given.checkpoint_url("x") == "hdfs://n:1/c"
