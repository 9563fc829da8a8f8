"""What an archive has, judged by DuckDB reading every file of it."""

from collections import Counter
from pathlib import Path

import duckdb


def archived(folder: Path) -> Counter[tuple[int, int]]:
    """How often each (partition, offset) is there; no file is left out."""
    if not list(folder.glob("**/*.parquet")):
        return Counter()
    with duckdb.connect() as connection:
        query = f"""select partition, "offset" from read_parquet('{folder}/**/*.parquet')"""
        return Counter(connection.execute(query).fetchall())


def each_once(counts: dict[int, int]) -> Counter[tuple[int, int]]:
    """What is there if each of so many messages per partition is there once."""
    return Counter((partition, at) for partition, count in counts.items() for at in range(count))
