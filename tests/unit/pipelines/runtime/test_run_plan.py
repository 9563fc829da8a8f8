"""Options of pipelines as the command line has them."""

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.runtime.run_plan import parse_options


def test_options_are_by_pipeline() -> None:
    given = ["archive.path=hdfs://h:1/a=b", "archive.topics=x,y", "billing.month=2026-01"]
    assert parse_options(given) == {
        "archive": {"path": "hdfs://h:1/a=b", "topics": "x,y"},
        "billing": {"month": "2026-01"},
    }


@pytest.mark.parametrize("text", ["", "a", "a=b", "a.=b", ".a=b", "a.b"])
def test_what_names_no_option_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write NAME\.option=value"):
        parse_options([text])


def test_an_option_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"archive\.path is given twice"):
        parse_options(["archive.path=a", "archive.path=b"])
