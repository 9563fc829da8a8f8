from dataclasses import replace

import pytest
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE

from opentalos.catalog.quota.quotas import UserQuota
from opentalos.catalog.quota.space import SpaceLedger
from opentalos.catalog.quota.throttle import Throttle, ThrottleHandle
from opentalos.catalog.topics.topic import BaseQuota, Topic
from opentalos.model.errors import QuotaExceeded, ThrottleRejected
from opentalos.model.identity import Principal
from opentalos.model.limits import QuotaLimits

TOPIC = Topic(
    uuid="u1",
    owner="alice",
    name="t",
    partitions=4,
    consumer_partitions=4,
    partitions_ever=4,
    retention_s=3_600,
)
OTHER = replace(TOPIC, uuid="u2", name="other")
OPEN = QuotaLimits(
    user_put_requests_per_s=0,
    user_get_requests_per_s=0,
    user_put_bytes_per_s=0,
    user_get_bytes_per_s=0,
    topic_put_requests_per_s=0,
    topic_get_requests_per_s=0,
    topic_put_bytes_per_s=0,
    topic_get_bytes_per_s=0,
)


class Quotas:
    """A throttle with its ledger, and user quotas that a test sets."""

    def __init__(self, **limits: object) -> None:
        self.users: dict[str, UserQuota] = {}
        self.limits = replace(OPEN, **limits)  # type: ignore[arg-type]
        self.spaces = SpaceLedger(self.limits, self.users.get)
        self.throttle = Throttle(self.limits, self.spaces, self.users.get)

    def handle(
        self, who: Principal = ALICE, topic: Topic = TOPIC, partition: int = 0
    ) -> ThrottleHandle:
        return self.throttle.handle(who, topic, partition)


def test_without_limits_nothing_is_held() -> None:
    handle = Quotas().handle()
    assert [handle.admit_put(100.0, 1 << 30) for _ in range(100)] == [0.0] * 100
    assert [handle.admit_get(100.0) for _ in range(100)] == [0.0] * 100


def test_one_second_of_unused_rate_passes_at_once_and_then_requests_are_held() -> None:
    handle = Quotas(topic_put_requests_per_s=10).handle()
    holds = [handle.admit_put(100.0, 1) for _ in range(30)]
    assert holds[:11] == [0.0] * 11
    assert holds[11] == pytest.approx(0.1)
    assert holds[29] == pytest.approx(1.9)


def test_a_throttled_rate_is_exactly_the_limit() -> None:
    handle = Quotas(topic_put_requests_per_s=10).handle()
    due_s = [100.0 + handle.admit_put(100.0, 1) for _ in range(40)]
    assert sum(100.0 < at <= 101.0 for at in due_s) == 10
    assert sum(101.0 < at <= 102.0 for at in due_s) == 10


def test_unused_rate_is_not_saved_for_longer_than_a_second() -> None:
    handle = Quotas(topic_put_requests_per_s=10).handle()
    handle.admit_put(100.0, 1)
    holds = [handle.admit_put(1_000.0, 1) for _ in range(12)]
    assert holds[:11] == [0.0] * 11
    assert holds[11] > 0.0


def test_above_the_longest_delay_a_request_is_rejected_with_limit_and_measured_value() -> None:
    handle = Quotas(topic_put_bytes_per_s=1_000, throttle_max_s=3.0).handle()
    assert handle.admit_put(100.0, 5_000) == 0.0
    with pytest.raises(ThrottleRejected) as rejected:
        handle.admit_put(100.0, 100)
    text = str(rejected.value)
    assert "put bytes of topic t: limit 1000 bytes/s, measured 100 bytes/s" in text
    assert "retry after 4.0 s" in text
    assert handle.admit_put(101.5, 100) == pytest.approx(2.5)


def test_the_measured_value_is_what_was_asked_for_in_the_last_second() -> None:
    handle = Quotas(topic_put_requests_per_s=10, throttle_max_s=0.0).handle()
    rejected = 0
    text = ""
    for step in range(300):  # 100 requests per second for 3 s
        try:
            handle.admit_put(100.0 + step / 100, 1)
        except ThrottleRejected as error:
            rejected += 1
            text = str(error)
    assert 250 <= rejected <= 270
    assert "limit 10 requests/s" in text
    measured = int(text.split("measured ")[1].split()[0])
    assert 85 <= measured <= 105


def test_a_rejected_request_costs_nothing() -> None:
    quotas = Quotas(topic_put_requests_per_s=10, user_put_bytes_per_s=1_000, throttle_max_s=1.0)
    handle = quotas.handle()
    assert handle.admit_put(100.0, 5_000) == 0.0
    for _ in range(50):
        with pytest.raises(ThrottleRejected):
            handle.admit_put(100.0, 5_000)
    assert handle.admit_put(103.5, 1) == pytest.approx(0.5)


def test_asking_first_refuses_what_a_put_would_and_charges_nothing() -> None:
    quotas = Quotas(topic_put_bytes_per_s=100, throttle_max_s=1.0)
    handle = quotas.handle()
    for _ in range(50):
        handle.check_put(100.0, 1 << 20)
    assert handle.admit_put(100.0, 300) == 0.0, "nothing is charged yet"
    with pytest.raises(ThrottleRejected, match="limit 100 bytes/s, measured 40 bytes/s"):
        handle.check_put(100.0, 40)
    handle.check_put(101.0, 40)
    assert handle.admit_put(101.0, 40) == 1.0
    quotas = Quotas(topic_space_bytes=100)
    quotas.handle().check_put(100.0, 100)
    with pytest.raises(QuotaExceeded, match="101 more requested"):
        quotas.handle().check_put(100.0, 101)


def test_a_topic_is_limited_over_all_callers_and_a_user_over_all_topics() -> None:
    quotas = Quotas(topic_put_requests_per_s=10)
    for who in (ALICE, BOB):
        for _ in range(6):
            last = quotas.handle(who).admit_put(100.0, 1)
    assert last > 0.0
    quotas = Quotas(user_put_requests_per_s=10)
    for topic in (TOPIC, OTHER):
        for _ in range(6):
            last = quotas.handle(ALICE, topic).admit_put(100.0, 1)
    assert last > 0.0
    assert quotas.handle(BOB).admit_put(100.0, 1) == 0.0


def test_partitions_and_organisations_have_their_own_limits() -> None:
    quotas = Quotas(partition_put_bytes_per_s=10, partition_get_requests_per_s=5)
    assert quotas.handle(partition=0).admit_put(100.0, 30) == 0.0
    assert quotas.handle(partition=0).admit_put(100.0, 1) == pytest.approx(2.0)
    assert quotas.handle(partition=1).admit_put(100.0, 1) == 0.0
    holds = [quotas.handle(partition=2).admit_get(100.0) for _ in range(7)]
    assert holds == [0.0] * 6 + [pytest.approx(0.2)]
    quotas = Quotas(organisation_put_bytes_per_s=10, organisation_get_bytes_per_s=10)
    assert quotas.handle(CAROL).admit_put(100.0, 30) == 0.0
    assert quotas.handle(DAVE).admit_put(100.0, 1) == pytest.approx(2.0)
    assert quotas.handle(ALICE).admit_put(100.0, 1) == 0.0


def test_bytes_of_a_reply_hold_the_next_get() -> None:
    handle = Quotas(topic_get_bytes_per_s=1_000, throttle_max_s=3.0).handle()
    assert handle.admit_get(100.0) == 0.0
    handle.charge_get(100.0, 3_000)
    assert handle.admit_get(100.0) == pytest.approx(2.0)
    handle.charge_get(100.0, 3_000)
    with pytest.raises(ThrottleRejected, match=r"get bytes of topic t: limit 1000 bytes/s"):
        handle.admit_get(100.0)


def test_a_changed_quota_holds_for_the_next_request_and_an_equal_one_keeps_the_debt() -> None:
    quotas = Quotas(user_put_bytes_per_s=1_000)
    assert quotas.handle().admit_put(100.0, 3_000) == 0.0
    quotas.throttle.invalidate()
    assert quotas.handle().admit_put(100.0, 1) == pytest.approx(2.0)
    quotas.users["alice"] = UserQuota(rates=BaseQuota(put_bytes_per_s=10))
    quotas.throttle.invalidate()
    assert quotas.handle().admit_put(100.0, 30) == 0.0
    assert quotas.handle().admit_put(100.0, 1) == pytest.approx(2.0)
    quotas.users["alice"] = UserQuota(rates=BaseQuota(put_bytes_per_s=0))
    quotas.throttle.invalidate()
    assert quotas.handle().admit_put(100.0, 1 << 30) == 0.0


def test_a_topics_own_quota_replaces_the_default() -> None:
    topic = replace(TOPIC, quota=BaseQuota(put_requests_per_s=1))
    handle = Quotas(topic_put_requests_per_s=1_000).handle(topic=topic)
    assert [handle.admit_put(100.0, 1) for _ in range(3)] == [0.0, 0.0, pytest.approx(1.0)]


def test_space_is_an_amount_and_names_limit_and_measured_value() -> None:
    quotas = Quotas(topic_space_bytes=1_000, user_space_bytes=1_500)
    assert quotas.handle().admit_put(100.0, 900) == 0.0
    with pytest.raises(QuotaExceeded, match="space of topic t: limit 1000 bytes, measured 900"):
        quotas.handle().admit_put(100.0, 101)
    assert quotas.handle(topic=OTHER).admit_put(100.0, 600) == 0.0
    with pytest.raises(QuotaExceeded, match="space of user alice: limit 1500 bytes"):
        quotas.handle(BOB, OTHER).admit_put(100.0, 1)
    quotas.spaces.set_used(TOPIC, 100)
    assert quotas.spaces.used_by_owner("alice") == 700
    assert quotas.handle().admit_put(100.0, 800) == 0.0
    quotas.spaces.forget(TOPIC)
    quotas.throttle.invalidate()
    assert quotas.spaces.used_by_owner("alice") == 600
    assert quotas.spaces.used(TOPIC) == 0


def test_a_put_that_has_no_space_is_not_charged() -> None:
    quotas = Quotas(topic_space_bytes=10, topic_put_requests_per_s=1, throttle_max_s=0.0)
    handle = quotas.handle()
    for _ in range(5):
        with pytest.raises(QuotaExceeded):
            handle.admit_put(100.0, 11)
    assert handle.admit_put(100.0, 10) == 0.0
