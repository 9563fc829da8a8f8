"""HDFS, ZooKeeper, HBase, Druid and Kafka on one machine, for evaluation, tests and benchmarks."""
