"""HDFS, ZooKeeper, HBase, Druid, Kafka and YARN on one machine, for evaluation and tests."""
