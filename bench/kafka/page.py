"""The page of the figures: two tables of throughput and latency that are never mixed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.kafka.result import Row, number, span
from bench.kafka.systems import DISK, KAFKA, MEMORY, OURS, SYSTEMS
from bench.line_picture import Labels, draw

TITLES: Final = {
    DISK: "Acknowledged on disk",
    MEMORY: "Acknowledged in memory",
    "": "Start and memory",
}
EXPLAINED: Final = {
    DISK: "Kafka's topics have `flush.messages=1`, ours `durability=synced`: "
    "both answer once the disk has the records.",
    MEMORY: "Kafka's topics have its defaults, ours `durability=flushed`: "
    "both answer once the operating system has the records, and a power cut loses the last ones.",
    "": "An empty data directory that exists; resident memory after three seconds without clients.",
}
INTRODUCTION: Final = """# The Kafka port beside Apache Kafka

`make bench-kafka` writes this page: one server of OpenTalos and one Apache Kafka 4.3.1
(KRaft, broker and controller in one process) on one machine, replication 1, with the same client
programs: `ProducerPerformance` and `ConsumerPerformance` of Kafka for rates, confluent-kafka for
latency and for many producers. Both servers run all the time; the rounds alternate, and the first
one changes from round to round. A server has been loaded with the same kind of records before a
round counts. Clients of OpenTalos authenticate with SASL PLAIN, those of Kafka do not; it matters
when they connect. Both share the processors with the client. A new consumer group does not wait for
more members, which both do for three seconds by default: `group.initial.rebalance.delay.ms=0`,
`[kafka_group] initial_delay_s = 0`.

Values are medians, with the smallest and the largest. "Times" is the median over the rounds of
ours to Kafka's, turned so that more than 1 means that OpenTalos is better. CPU is that of the
server, per million records.
"""


def page(machine: dict[str, Any], rows: Sequence[Row]) -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine.items())
    parts.append(f"Measured with: {facts}.\n")
    for table, title in TITLES.items():
        found = [row for row in rows if row.table == table]
        if found:
            parts += [f"## {title}", f"{EXPLAINED[table]}\n", _table(found), ""]
            if table and any(row.group == "throughput" for row in found):
                parts.append(f"![Records per second by size]({picture_name(table)})\n")
    return "\n".join(parts).rstrip() + "\n"


def _table(rows: Sequence[Row]) -> str:
    heads = ["Figure", OURS, KAFKA, "Times", f"CPU s {OURS}", f"CPU s {KAFKA}", "Settings"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for row in rows:
        cells = [f"{row.name} ({row.unit})"]
        cells += [span(row.values[system]) for system in SYSTEMS]
        cells.append(number(row.ratio()))
        cells += [span(row.cpu_s_per_million.get(system, [])) for system in SYSTEMS]
        cells.append(row.settings or "-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def picture_name(table: str) -> str:
    """File of a table's picture."""
    return f"kafka_figures_{table}.svg"


def pictures(rows: Sequence[Row], folder: Path) -> None:
    """Records per second by their size, with 8 partitions."""
    sizes = {"100 B": 100, "1 KiB": 1024, "64 KiB": 65_536}
    for table in (DISK, MEMORY):
        lines: dict[str, dict[int, float]] = {}
        for row in rows:
            size, _, rest = row.name.partition(", ")
            if (row.table, row.group, rest) == (table, "throughput", "8 partitions"):
                for system in SYSTEMS:
                    middle = sorted(row.values[system])[len(row.values[system]) // 2]
                    lines.setdefault(system, {})[sizes[size]] = middle
        if lines:
            title = f"{TITLES[table]}: records/s, 8 partitions"
            labels = Labels(title, "bytes of a record", logarithmic=True)
            draw(lines, labels, folder / picture_name(table))
