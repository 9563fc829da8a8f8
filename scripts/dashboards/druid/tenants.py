"""Traffic by tenant and topic, from measurements of partitions."""

from typing import Final

from scripts.dashboards.druid.sql import (
    PARTITIONS,
    RATE,
    SERVERS,
    TENANT,
    TOPIC,
    by,
    curves,
    series,
)
from scripts.dashboards.panel import DRUID, Dashboard, Row

_LARGEST: Final = "The ten largest of the whole range."
DRUID_TENANTS: Final = Dashboard(
    "tenants",
    "OpenTalos: tenants, from measurements",
    "Traffic by tenant and topic.",
    (
        Row(
            "Tenants",
            (
                curves("Stored", "Bps", by("put_bytes", RATE, TENANT, PARTITIONS), about=_LARGEST),
                curves("Read", "Bps", by("get_bytes", RATE, TENANT, PARTITIONS), about=_LARGEST),
                curves(
                    "Messages stored",
                    "ops",
                    by("put_messages", RATE, TENANT, PARTITIONS),
                    about=_LARGEST,
                ),
                curves(
                    "Messages read",
                    "ops",
                    by("get_messages", RATE, TENANT, PARTITIONS),
                    about=_LARGEST,
                ),
            ),
        ),
        Row(
            "Topics",
            (
                curves("Stored", "Bps", by("put_bytes", RATE, TOPIC, PARTITIONS), about=_LARGEST),
                curves("Read", "Bps", by("get_bytes", RATE, TOPIC, PARTITIONS), about=_LARGEST),
            ),
        ),
        Row(
            "Quotas",
            (
                curves(
                    "Throttled and rejected",
                    "ops",
                    series("quota_holds", RATE, "throttled", SERVERS),
                    series("quota_rejections", RATE, "rejected", SERVERS),
                ),
            ),
        ),
    ),
    DRUID,
)
