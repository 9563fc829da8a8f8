"""A script that ends in the middle of a loop, closing nothing. Arguments: URL, ID:SECRET."""

import sys

from opentalos.sdk import ClientConfig, TalosConsumer

url, key = sys.argv[1:3]
key_id, _, secret = key.partition(":")
config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)
for record in TalosConsumer(config, "left-consumer", "g"):
    if record.offset == 3:
        break
sys.stdout.write("end\n")
