"""The page of the Kafka port's figures, from rows that were measured."""

from pathlib import Path

from bench.kafka.page import TITLES, page, pictures
from bench.kafka.result import Row, read, write
from bench.kafka.systems import DISK, KAFKA, MEMORY, OURS

RATE = Row(
    table=DISK,
    group="throughput",
    name="1 KiB, 8 partitions",
    unit="records/s",
    more=True,
    settings="acks=all; flush.messages=1",
    values={OURS: [200.0, 300.0, 250.0], KAFKA: [100.0, 100.0, 100.0]},
    cpu_s_per_million={OURS: [4.0], KAFKA: [8.0]},
)
LATENCY = Row(
    table=MEMORY,
    group="latency",
    name="P99",
    unit="ms",
    more=False,
    settings="acks=all",
    values={OURS: [2.0], KAFKA: [3.0]},
)


def test_a_ratio_above_one_means_that_ours_is_better() -> None:
    assert RATE.ratio() == 2.5
    assert LATENCY.ratio() == 1.5


def test_a_figure_is_in_the_table_of_its_acknowledgement_only() -> None:
    text = page({"processors": 2}, [RATE, LATENCY])
    disk, memory = text.split(f"## {TITLES[MEMORY]}")
    assert "| 1 KiB, 8 partitions (records/s) | 250 (200 .. 300) | 100 (100 .. 100) | 2.5 |" in disk
    assert "flush.messages=1" in disk
    assert "P99 (ms)" not in disk
    assert "P99 (ms)" in memory
    assert "1 KiB" not in memory


def test_rows_are_written_and_read_again(tmp_path: Path) -> None:
    write(tmp_path / "kafka.json", [RATE, LATENCY], 3, ["catch-up: no groups"])
    machine, rows = read(tmp_path / "kafka.json")
    assert rows == [RATE, LATENCY]
    assert machine["rounds"] == 3
    pictures(rows, tmp_path)
    assert [path.name for path in tmp_path.glob("*.svg")] == ["kafka_figures_disk.svg"]
