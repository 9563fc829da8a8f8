"""What spark-submit takes. The folder has one file, since Python imports from it first."""
