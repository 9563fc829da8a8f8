"""PySpark data source and jobs over the SDK."""
