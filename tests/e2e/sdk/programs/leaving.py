"""A script that ends without closing anything. Arguments: URL, ID:SECRET."""

import sys

from opentalos.sdk import ClientConfig, SimpleProducer, TalosAdmin

url, key = sys.argv[1:3]
key_id, _, secret = key.partition(":")
config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)
admin = TalosAdmin(config)
admin.topics.create("left", partitions=1)
producer = SimpleProducer(config, "left")
producer.put([b"x"])
sys.stdout.write("end\n")
