"""Waiting: the next that may go is found in order, and without a look at each that waits."""

from opentalos.log.scheduling.shares import Share
from opentalos.log.scheduling.waiting import Waiting


def may_all(tenant: Share, topic: Share | None) -> bool:
    return True


def test_tenants_and_topics_take_turns_and_a_topic_keeps_its_order() -> None:
    waiting: Waiting[str] = Waiting()
    a, b, one, two, three = (Share(name) for name in "a b 1 2 3".split())
    for tenant, topic in ((a, one), (a, one), (a, two), (b, three), (b, three)):
        waiting.add(tenant, topic, f"{tenant.name}{topic.name}.{len(waiting)}")
    assert sorted(waiting) == ["a1.0", "a1.1", "a2.2", "b3.3", "b3.4"]
    taken = [waiting.take(may_all) for _ in range(6)]
    assert taken == ["a1.0", "b3.3", "a2.2", "b3.4", "a1.1", None]
    assert len(waiting) == len(list(waiting)) == 0


def test_a_share_that_is_used_up_is_passed_over_at_once() -> None:
    waiting: Waiting[int] = Waiting()
    sick, full, well = Share("sick"), Share("full"), Share("well")
    topics = [Share(f"{number}") for number in range(1_000)]
    for number in range(1_000):
        waiting.add(sick, topics[number], -1)
        waiting.add(full, topics[0], -2)
    waiting.add(well, topics[1], 7)
    asked: list[str] = []

    def may(tenant: Share, topic: Share | None) -> bool:
        asked.append(tenant.name)
        return tenant is well or (tenant is full and topic is None)

    assert waiting.take(may) == 7
    assert asked == ["sick", "full", "full", "well", "well"]
    assert waiting.take(may) is None
    waiting.clear()
    assert len(waiting) == 0
