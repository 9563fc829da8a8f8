"""``format("talos")`` for Spark: topics as DataFrames, batch and streaming, without a JAR."""

from opentalos.pipelines.datasource.binary_values import decode_avro, decode_protobuf
from opentalos.pipelines.datasource.data_source import TalosDataSource
from opentalos.pipelines.datasource.json_values import decode_json

__all__ = ["TalosDataSource", "decode_avro", "decode_json", "decode_protobuf"]
