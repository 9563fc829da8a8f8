"""Rate quotas: token buckets per partition, topic, user and organisation.

The broker asks for a ``ThrottleHandle`` with every put and get and delays the request as the
handle says. A bucket is one float: the loop time up to which its tokens are spent. It may lag
behind now by one second at most (the burst), and be ahead of now (overdrawn). A request may
overdraw a bucket; later requests are delayed until it refills, or rejected if that takes longer
than ``throttle_max_s``. So a request larger than one second's rate still passes.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, NoReturn

from opentalos.catalog.quota.quotas import UserQuota, topic_rates, user_rates
from opentalos.catalog.quota.space import SpaceAccount, SpaceLedger
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import ThrottleRejected
from opentalos.model.identity import Principal
from opentalos.model.limits import QuotaLimits

HANDLES_MAX = 100_000  # cached handles; beyond it the cache is cleared
BUCKETS_MAX = 100_000  # beyond it full buckets are dropped
DELAY_MIN_S = 0.001  # a shorter delay is not worth a timer; the tokens stay charged
BURST_S = 1.0  # unused rate is kept this long
MEASURE_S = 1.0  # the measured value in an error's text is an average over this time


class Bucket:
    """One rate. ``spent_until_s`` is ahead of now (overdrawn) or behind it (spare tokens)."""

    __slots__ = (
        "_last_rate", "_window_count", "_window_s", "limit", "name", "s_per_unit",
        "spent_until_s", "unit",
    )  # fmt: skip

    def __init__(self, name: str, unit: str, limit: int) -> None:
        self.name, self.unit, self.limit = name, unit, limit
        self.s_per_unit = 1.0 / limit
        self.spent_until_s = float("-inf")
        self._window_s, self._window_count, self._last_rate = 0.0, 0, 0.0

    def observe(self, now_s: float, units: int) -> None:
        """Count the demand while overdrawn, rejected or not: the measured value of errors."""
        elapsed_s = now_s - self._window_s
        if elapsed_s >= MEASURE_S:
            # An old window says nothing about the current rate.
            fresh = elapsed_s < 2 * MEASURE_S
            self._last_rate = self._window_count / elapsed_s if fresh else 0.0
            self._window_s, self._window_count = now_s, 0
        self._window_count += units

    def measured(self) -> int:
        """Units per second requested recently."""
        return round(max(self._last_rate, self._window_count / MEASURE_S))


class ThrottleHandle:
    """The buckets of one (principal, topic, partition); about 1 us per call (hot path)."""

    __slots__ = (
        "_delay_max_s", "_get_bytes", "_get_requests", "_put_bytes", "_put_requests", "_spaces",
    )  # fmt: skip

    def __init__(
        self,
        delay_max_s: float,
        put: tuple[tuple[Bucket, ...], tuple[Bucket, ...]],
        get: tuple[tuple[Bucket, ...], tuple[Bucket, ...]],
        spaces: tuple[SpaceAccount, ...],
    ) -> None:
        self._delay_max_s = delay_max_s
        self._put_requests, self._put_bytes = put
        self._get_requests, self._get_bytes = get
        self._spaces = spaces

    def admit_put(self, now_s: float, bytes_count: int) -> float:
        """Charge one put; return the seconds to delay it (0.0: no delay).

        Raises: QuotaExceeded (space), ThrottleRejected (rate): not done, nothing charged.
        """
        for space in self._spaces:
            if space.used_bytes + bytes_count > space.limit_bytes:
                space.refuse(bytes_count)
        delay_s = charge(self._put_requests, now_s, 1)
        if self._put_bytes:
            byte_delay_s = charge(self._put_bytes, now_s, bytes_count)
            if byte_delay_s > delay_s:
                delay_s = byte_delay_s
        if delay_s > self._delay_max_s:
            refund(self._put_requests, 1)
            refund(self._put_bytes, bytes_count)
            reject(self._put_requests + self._put_bytes, now_s)
        for space in self._spaces:
            space.used_bytes += bytes_count
        return delay_s if delay_s > DELAY_MIN_S else 0.0

    def check_put(self, now_s: float, bytes_count: int) -> None:
        """Whether ``admit_put`` would pass now; nothing is charged.

        Raises: QuotaExceeded (space), ThrottleRejected (rate).
        """
        full = any(space.used_bytes + bytes_count > space.limit_bytes for space in self._spaces)
        buckets = self._put_requests + self._put_bytes
        late = any(bucket.spent_until_s - now_s > self._delay_max_s for bucket in buckets)
        if full or late:
            self.admit_put(now_s, bytes_count)  # by the same rule, and it says why

    def admit_get(self, now_s: float) -> float:
        """Charge one get; return the seconds to delay it. Its bytes are charged when known.

        Raises: ThrottleRejected: nothing charged.
        """
        delay_s = charge(self._get_requests, now_s, 1)
        if self._get_bytes:
            byte_delay_s = charge(self._get_bytes, now_s, 0)
            if byte_delay_s > delay_s:
                delay_s = byte_delay_s
        if delay_s > self._delay_max_s:
            refund(self._get_requests, 1)
            reject(self._get_requests + self._get_bytes, now_s)
        return delay_s if delay_s > DELAY_MIN_S else 0.0

    def charge_get(self, now_s: float, bytes_count: int) -> None:
        """Charge the bytes of a reply; if they overdraw the bucket, the next get is delayed."""
        if self._get_bytes:
            charge(self._get_bytes, now_s, bytes_count)


def charge(buckets: tuple[Bucket, ...], now_s: float, units: int) -> float:
    """Take units from every bucket; return the longest time in seconds until one refills."""
    delay_s = 0.0
    earliest_s = now_s - BURST_S
    for bucket in buckets:
        spent_s = bucket.spent_until_s
        if spent_s > now_s:
            bucket.observe(now_s, units)
            if spent_s - now_s > delay_s:
                delay_s = spent_s - now_s
        elif spent_s < earliest_s:
            spent_s = earliest_s
        bucket.spent_until_s = spent_s + units * bucket.s_per_unit
    return delay_s


def refund(buckets: tuple[Bucket, ...], units: int) -> None:
    """Return the units of a rejected call."""
    for bucket in buckets:
        bucket.spent_until_s -= units * bucket.s_per_unit


def reject(buckets: tuple[Bucket, ...], now_s: float) -> NoReturn:
    """Raises: ThrottleRejected with limit and measured value of the most overdrawn bucket."""
    worst = max(buckets, key=lambda bucket: bucket.spent_until_s)
    raise ThrottleRejected(
        f"{worst.name}: limit {worst.limit} {worst.unit}, measured {worst.measured()} "
        f"{worst.unit}; retry after {worst.spent_until_s - now_s:.1f} s"
    )


class Delayed(NamedTuple):
    """A rate that is used up: calls wait ``wait_s``."""

    name: str
    limit: int
    unit: str
    wait_s: float


class Throttle:
    """Caches handles; every quota change drops them all, so callers ask with every request, or
    compare ``version``."""

    def __init__(
        self,
        limits: QuotaLimits,
        spaces: SpaceLedger,
        user_quota: Callable[[str], UserQuota | None],
    ) -> None:
        self._limits, self._spaces, self._user_quota = limits, spaces, user_quota
        self.version = 0  # of all quotas; a handle is current as long as it stays the same
        self._handles: dict[tuple[str, str, int], ThrottleHandle] = {}
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def handle(self, principal: Principal, topic: Topic, partition: int) -> ThrottleHandle:
        """The cached handle of a caller on a partition of an existing topic."""
        key = (principal.id, topic.uuid, partition)
        handle = self._handles.get(key)
        if handle is None:
            if len(self._handles) >= HANDLES_MAX:
                self._handles.clear()
            handle = self._handles[key] = self._build(principal, topic, partition)
        return handle

    def delayed_gets(self, subjects: Collection[str], now_s: float) -> Sequence[Delayed]:
        """Rates of these that gets have to wait for now, the longest wait first.

        ``subjects``: uuid of a topic, uuid/partition, user/ID, organisation/NAME.
        """
        found = [
            Delayed(bucket.name, bucket.limit, bucket.unit, bucket.spent_until_s - now_s)
            for (kind, subject), bucket in self._buckets.items()
            if subject in subjects and kind.startswith("get")
        ]
        return sorted(
            (each for each in found if each.wait_s > DELAY_MIN_S), key=lambda each: -each.wait_s
        )

    def invalidate(self) -> None:
        """Drop every handle: a quota, a topic's quota or a principal changed."""
        self.version += 1
        self._handles.clear()

    def _build(self, principal: Principal, topic: Topic, partition: int) -> ThrottleHandle:
        limits = self._limits
        user = user_rates(limits, self._user_quota(principal.id))
        of_topic = topic_rates(limits, topic.quota)
        route = f"partition {partition} of topic {topic.name}"
        names = (
            (f"topic {topic.name}", topic.uuid, of_topic),
            (f"user {principal.id}", f"user/{principal.id}", user),
        )
        put_requests, put_bytes, get_requests, get_bytes = [], [], [], []
        for name, subject, rates in names:
            put_requests.append((f"puts of {name}", subject, rates.put_requests_per_s))
            get_requests.append((f"gets of {name}", subject, rates.get_requests_per_s))
            put_bytes.append((f"put bytes of {name}", subject, rates.put_bytes_per_s))
            get_bytes.append((f"get bytes of {name}", subject, rates.get_bytes_per_s))
        subject = f"{topic.uuid}/{partition}"
        put_bytes.append((f"put bytes of {route}", subject, limits.partition_put_bytes_per_s))
        get_requests.append((f"gets of {route}", subject, limits.partition_get_requests_per_s))
        if principal.organisation:
            name = f"organisation {principal.organisation}"
            subject = f"organisation/{principal.organisation}"
            put_rate = limits.organisation_put_bytes_per_s
            get_rate = limits.organisation_get_bytes_per_s
            put_bytes.append((f"put bytes of {name}", subject, put_rate))
            get_bytes.append((f"get bytes of {name}", subject, get_rate))
        return ThrottleHandle(
            limits.throttle_max_s,
            (
                self._limited("put requests", put_requests, "requests/s"),
                self._limited("put bytes", put_bytes, "bytes/s"),
            ),
            (
                self._limited("get requests", get_requests, "requests/s"),
                self._limited("get bytes", get_bytes, "bytes/s"),
            ),
            self._spaces.accounts(topic),
        )

    def _limited(
        self, kind: str, rates: list[tuple[str, str, int | None]], unit: str
    ) -> tuple[Bucket, ...]:
        return tuple(
            self._bucket((kind, subject), name, unit, limit)
            for name, subject, limit in rates
            if limit
        )

    def _bucket(self, key: tuple[str, str], name: str, unit: str, limit: int) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None or bucket.limit != limit:
            # A changed limit starts with a full bucket; every handle is new as well.
            if len(self._buckets) >= BUCKETS_MAX:
                self._forget_idle()
            bucket = self._buckets[key] = Bucket(name, unit, limit)
        return bucket

    def _forget_idle(self) -> None:
        """Drop full buckets, which a new bucket equals, and every handle."""
        now_s = asyncio.get_running_loop().time()
        earliest_s = now_s - BURST_S
        self.invalidate()
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if bucket.spent_until_s > earliest_s
        }
