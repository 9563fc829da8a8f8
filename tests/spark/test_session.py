"""The session that everything else stands on."""

import sys

import pyspark
from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer

from opentalos.sdk import TalosAdmin


def test_times_are_utc_and_workers_are_this_interpreter(spark: SparkSession) -> None:
    def interpreter(_: object) -> tuple[str, str]:
        return sys.executable, pyspark.__file__

    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.parallelize([0], 1).map(interpreter).collect() == [
        (
            sys.executable,
            pyspark.__file__,
        )  # the installed one, not a zip that is compiled each time
    ]


def test_plans_of_sql_do_not_show_a_key(spark: SparkSession) -> None:
    view = "CREATE TEMPORARY VIEW shown USING talos OPTIONS (topic 'clicks', key 'AK1:hidden')"
    plan = spark.sql(f"EXPLAIN EXTENDED {view}").head()
    assert plan is not None
    assert "clicks" in plan[0]
    assert "hidden" not in plan[0]


def test_the_server_of_these_tests_answers(server: TalosServer) -> None:
    with TalosAdmin(server.config) as admin:
        assert admin.server_version()
