"""Tables for fast queries: Parquet read by DuckDB, or Apache Druid, behind one interface."""
