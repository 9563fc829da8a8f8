"""Attributes that look like settings and have no effect are refused."""

import pytest

from opentalos.model.errors import InvalidTopicParams
from opentalos.model.settings.topic_attributes import check_settings


@pytest.mark.parametrize("key", ["cleanup.policy", "retention.ms", "segment.bytes", "."])
def test_another_setting_is_refused_with_what_there_is(key: str) -> None:
    check_settings(["durability", "retention.bytes", "team", "cost_centre"])
    with pytest.raises(InvalidTopicParams, match=r"not supported.*durability .*retention\.bytes"):
        check_settings(["team", key])
