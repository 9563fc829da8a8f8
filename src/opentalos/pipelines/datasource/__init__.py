"""``format("talos")`` for Spark: topics as DataFrames, batch and streaming, without a JAR."""

from opentalos.pipelines.datasource.data_source import TalosDataSource

__all__ = ["TalosDataSource"]
