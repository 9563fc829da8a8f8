"""Attributes that look like settings and have no effect are refused."""

import pytest

from opentalos.model.errors import InvalidTopicParams
from opentalos.model.topic_attributes import check_settings


def test_settings_of_ours_and_notes_pass() -> None:
    check_settings(["durability", "retention.bytes", "team", "cost_centre"])


@pytest.mark.parametrize("key", ["cleanup.policy", "retention.ms", "segment.bytes", "."])
def test_another_setting_is_refused_with_what_there_is(key: str) -> None:
    with pytest.raises(InvalidTopicParams, match=r"not supported.*durability .*retention\.bytes"):
        check_settings(["team", key])
