"""Durations of options: seconds, or with a unit; ranges as the server has them."""

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from opentalos.cli.input.durations import Duration
from opentalos.cli.main import talos
from opentalos.model.limits import PARTITIONS_MAX, TopicLimits

WHOLE = Duration(click.IntRange(1, 604_800))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("12h", 43_200), ("7d", 604_800)],
)
def test_seconds_with_and_without_a_unit(text: str, seconds: int) -> None:
    assert WHOLE.convert(text, None, None) == seconds


def test_parts_of_a_second_where_the_option_has_them() -> None:
    assert Duration(click.FloatRange(0)).convert("0.5", None, None) == 0.5


@pytest.mark.parametrize(
    "text", ["", "x", "s", "7y", "-5m", "1.5h", "999999999999d", "9" * 20 + "s"]
)
def test_what_is_none_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a (valid )?duration; examples: "):
        WHOLE.convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "0s", "8d", "604801"])
def test_the_range_is_of_seconds(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not in the range 1<=x<=604800"):
        WHOLE.convert(text, None, None)


def options(group: click.Group = talos) -> Iterator[click.Option]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from options(command)
        elif command is not None:
            yield from (item for item in command.params if isinstance(item, click.Option))


def test_no_option_asks_for_seconds_only() -> None:
    found = list(options())
    timed = [item for item in found if isinstance(item.type, Duration)]
    assert len(timed) > 10
    assert {item.metavar for item in timed} == {"DURATION"}
    bare = {"SECONDS", "MS", "MINUTES", "HOURS", "DAYS"}
    assert [item.name for item in found if item.metavar in bare] == []


def test_limits_in_the_help_are_those_of_the_server() -> None:
    def shown(*command: str) -> str:
        return " ".join(CliRunner().invoke(talos, [*command, "--help"]).output.split())

    limits = TopicLimits()
    for command in ("create", "alter"):
        (low, high) = re.findall(r"retained: (\d+)h to (\d+)d", shown("topic", command))[0]
        assert (int(low) * 3_600, int(high) * 86_400) == (
            limits.retention_min_s,
            limits.retention_max_s,
        )
    assert f"COUNT is at most {PARTITIONS_MAX:,}" in shown("topic", "set-partitions")
