"""A limit on what tasks may send to the driver, so that rows among it fail a job."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_LIMIT: Final = "spark.driver.maxResultSize"


@contextmanager
def results_limited(spark: SparkSession, limit: str) -> Iterator[None]:
    """Jobs whose results have more than ``limit`` bytes, such as 1m, fail meanwhile."""
    conf = spark.sparkContext._jsc.sc().conf()  # the one that every job reads
    before = conf.get(_LIMIT, "1g")
    conf.set(_LIMIT, limit)
    try:
        yield
    finally:
        conf.set(_LIMIT, before)
