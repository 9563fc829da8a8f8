"""Real HDFS, ZooKeeper and HBase on one machine: fetched, started, stopped, and hurt by tests."""
