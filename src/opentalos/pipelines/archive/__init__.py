"""Topics into Parquet files, written by Spark through Hadoop's file systems."""
