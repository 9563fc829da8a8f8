"""Apache Druid as an archive of series, over HTTP."""
