"""The data source that a session registers: ``spark.dataSource.register(TalosDataSource)``."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from opentalos.pipelines.datasource.sink.options import write_options
from opentalos.pipelines.datasource.sink.writers import TalosStreamWriter, TalosWriter
from opentalos.pipelines.datasource.source.batch_reader import TalosReader
from opentalos.pipelines.datasource.source.columns import spark_schema
from opentalos.pipelines.datasource.source.options import (
    check_before_schema,
    chosen_columns,
    read_options,
)
from opentalos.pipelines.datasource.source.stream_reader import TalosStreamReader


class TalosDataSource(DataSource):
    """Topics of Talos servers; docs/how-to/spark.md lists the options."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "talos"

    def schema(self) -> StructType:
        """The columns of the option ``columns``; by default those of every message.

        Raises: ConfigError: it is a table of a catalog, or an option is invalid.
        """
        check_before_schema(self.options)
        return spark_schema(chosen_columns(self.options))

    def reader(self, schema: StructType) -> TalosReader:
        """A bounded read. Raises: ConfigError: an option or a column is invalid."""
        return TalosReader(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> TalosStreamReader:
        """A stream. Raises: ConfigError: an option or a column is invalid."""
        return TalosStreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> TalosWriter:
        """A batch write. Raises: ConfigError: an option or a column is invalid."""
        return TalosWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TalosStreamWriter:
        """The sink of a stream. Raises: ConfigError: an option or a column is invalid."""
        return TalosStreamWriter(write_options(self.options), schema)
