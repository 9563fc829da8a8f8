"""The session that everything else stands on."""

import sys

from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer

from opentalos.sdk import TalosAdmin


def test_times_are_utc_and_workers_are_this_interpreter(spark: SparkSession) -> None:
    def interpreter(_: object) -> str:
        return sys.executable

    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.parallelize([0], 1).map(interpreter).collect() == [sys.executable]


def test_the_server_of_these_tests_answers(server: TalosServer) -> None:
    with TalosAdmin(server.config) as admin:
        assert admin.server_version()
