"""The homes of pipelines' tables that tests run on."""

from pathlib import Path

LAKES = ("parquet", "delta")


def lake_url(kind: str, home: Path) -> str:
    """The option --lake for one of these: Parquet is what a run without a lake has."""
    return "" if kind == "parquet" else f"delta+file://{home}/delta"
