"""What the service does and how quickly, from its measurements."""

from typing import Final

from scripts.dashboards.druid.sql import (
    MEAN,
    PEAK,
    RATE,
    SERVER,
    SERVERS,
    by,
    curves,
    number,
    series,
    slower,
)
from scripts.dashboards.panel import DRUID, Dashboard, Row

from opentalos.wire.metrics.sketch import bucket_of

SLOW_MS: Final = (10, 100, 1_000)
DRUID_SERVICE: Final = Dashboard(
    "service",
    "OpenTalos: service, from measurements",
    "Calls, messages, bytes, latency and load of servers.",
    (
        Row(
            "Over the whole range",
            (
                number("Messages stored", "short", "put_messages", "SUM(total)"),
                number("Messages read", "short", "get_messages", "SUM(total)"),
                number("Stored", "bytes", "put_bytes", "SUM(total)"),
                number("Read", "bytes", "get_bytes", "SUM(total)"),
                number("Failed requests", "short", "errors", "SUM(total)"),
                number("Free space, least", "bytes", "disk_free_bytes", "MIN(low)"),
            ),
        ),
        Row(
            "Service",
            (
                curves(
                    "Calls",
                    "ops",
                    series("put_requests", RATE, "puts"),
                    series("get_requests", RATE, "gets"),
                    series("requests", RATE, "all"),
                ),
                curves(
                    "Messages",
                    "ops",
                    series("put_messages", RATE, "stored"),
                    series("get_messages", RATE, "read"),
                ),
                curves(
                    "Payload",
                    "Bps",
                    series("put_bytes", RATE, "stored"),
                    series("get_bytes", RATE, "read"),
                ),
                curves(
                    "Failures",
                    "ops",
                    series("errors", RATE, "errors"),
                    series("quota_rejections", RATE, "rejected by a quota"),
                    series("denials", RATE, "without permission"),
                ),
                curves(
                    "Slow puts",
                    "percentunit",
                    *(
                        slower("put_ms", bucket_of(limit), f"more than {limit} ms")
                        for limit in SLOW_MS
                    ),
                    about="The share of puts that took longer.",
                ),
                curves(
                    "Slow gets",
                    "percentunit",
                    *(
                        slower("get_ms", bucket_of(limit), f"more than {limit} ms")
                        for limit in SLOW_MS
                    ),
                    about="With waits for new messages.",
                ),
            ),
        ),
        Row(
            "Servers",
            (
                curves(
                    "Processor",
                    "short",
                    by("cpu_ms", "SUM(total) / $__interval_ms", SERVER, SERVERS),
                    about="Cores; the event loop uses one.",
                ),
                curves("Memory", "bytes", by("memory_bytes", PEAK, SERVER, SERVERS)),
                curves("Connections", "short", by("connections", MEAN, SERVER, SERVERS)),
                curves(
                    "Longest block of the event loop",
                    "ms",
                    by("loop_blocked_max_ms", PEAK, SERVER, SERVERS),
                ),
                curves("Waiting for commits", "bytes", by("pending_bytes", PEAK, SERVER, SERVERS)),
                curves("Free space", "bytes", by("disk_free_bytes", "MIN(low)", SERVER, SERVERS)),
            ),
        ),
    ),
    DRUID,
)
