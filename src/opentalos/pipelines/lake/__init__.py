"""Tables in Parquet with one file per part, each replaced as a whole."""
