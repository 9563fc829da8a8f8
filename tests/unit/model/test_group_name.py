import pytest

from opentalos.model.errors import InvalidName
from opentalos.model.names import check_group_name


@pytest.mark.parametrize("name", ["g", "com.example.app-1", "_internal", "console-consumer-1_"])
def test_kafka_clients_may_name_groups_as_they_do(name: str) -> None:
    assert check_group_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "-g", "a/b", "a b", "a\0b", "é", "x" * 201])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_group_name(name)
