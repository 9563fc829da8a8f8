import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import InvalidName
from opentalos.model.names import check_group_name, check_topic_name


@pytest.mark.parametrize("name", ["g", "com.example.app-1", "_internal", "console-consumer-1_"])
def test_kafka_clients_may_name_groups_as_they_do(name: str) -> None:
    assert check_group_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "-g", "a/b", "a b", "a\0b", "é", "x" * 201])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_group_name(name)


@pytest.mark.parametrize("name", ["a", "_schemas", "shop.orders-v2", "ends_", "0", "x" * 120])
def test_topics_have_the_names_of_kafka(name: str) -> None:
    assert check_topic_name(name) == name


@matrix(
    "name", ["", ".", "..", "_", "__usage", "-a", ".a", "_.a", "a/b", "a#b", "é", "a b", "x" * 121]
)
def test_a_topic_is_not_named_so(name: str) -> None:
    with pytest.raises(InvalidName, match="use 1 to 120"):
        check_topic_name(name)
