"""Usage by tenant and day, from measurements: trends, not the bill."""

from typing import Final

from scripts.dashboards.druid.sql import PARTITIONS, TENANT, TOPIC, by_day, curves, number
from scripts.dashboards.panel import DRUID, Dashboard, Row, text

DRUID_BILLING: Final = Dashboard(
    "billing",
    "OpenTalos: usage, from measurements",
    "Messages and bytes by tenant and day.",
    (
        Row(
            "Over the whole range",
            (
                text(
                    "Exact numbers",
                    "Measurements of the time that a server needs to restart may be missing, and "
                    "partitions beyond `[measuring] rows_max` share a row without a tenant. Exact "
                    "are `talos bill invoice`, with charts by day, and `talos bill export`.",
                ),
                number("Stored", "bytes", "put_bytes", "SUM(total)", PARTITIONS),
                number("Messages", "short", "put_messages", "SUM(total)", PARTITIONS),
                number("Read", "bytes", "get_bytes", "SUM(total)", PARTITIONS),
            ),
        ),
        Row(
            "By day in UTC",
            (
                curves("Stored by tenant", "bytes", by_day("put_bytes", TENANT)),
                curves("Messages by tenant", "short", by_day("put_messages", TENANT)),
                curves("Read by tenant", "bytes", by_day("get_bytes", TENANT)),
                curves("Messages read by tenant", "short", by_day("get_messages", TENANT)),
                curves("Stored by topic", "bytes", by_day("put_bytes", TOPIC)),
                curves("Read by topic", "bytes", by_day("get_bytes", TOPIC)),
            ),
        ),
    ),
    DRUID,
)
