"""Tables in Parquet, a file an hour, replaced as a whole."""
