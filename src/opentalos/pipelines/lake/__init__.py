"""Tables of the pipelines: Parquet on one machine, Delta on a cluster."""
