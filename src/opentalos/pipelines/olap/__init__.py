"""Tables that answer quickly: Parquet read by DuckDB, or Apache Druid, behind one interface."""
