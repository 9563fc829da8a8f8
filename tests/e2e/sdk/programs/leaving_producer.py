"""A script that closes none of its producers. Arguments: URL, ID:SECRET, TOPIC, SECONDS at exit."""

import gc
import sys

from opentalos.sdk import ClientConfig, Compression, ProducerSettings, TalosProducer
from opentalos.sdk.sync import producer_core

url, key, topic, exit_s = sys.argv[1:5]
key_id, _, secret = key.partition(":")
config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)
# Nothing is sent before the exit; then without a thread for the compression.
settings = ProducerSettings(linger_s=600.0, compression=Compression.ZSTD)
producer_core.EXIT_S_MAX = float(exit_s)  # type: ignore[misc]

kept = TalosProducer(config, topic, settings)
kept.put_many([b"kept 0", b"kept 1"])
dropped = TalosProducer(config, topic, settings)
dropped.put(b"dropped")
del dropped
gc.collect()
flushed = TalosProducer(config, topic, settings)
if exit_s != "0.5":  # the server is there
    flushed.put(b"flushed")
    flushed.flush()
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
