"""HDFS and YARN, the daemons of Hadoop."""
