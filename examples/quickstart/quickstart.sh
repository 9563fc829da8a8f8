#!/bin/sh
# Creates a topic, puts two messages with a key, and reads them in a consumer group.
set -eu
topic=${1:?usage: quickstart.sh TOPIC}
rest=$TALOS_URL/rest/v1

ask() {
    curl --silent --show-error --fail-with-body --user "$TALOS_KEY" \
        --header 'Content-Type: application/json' "$@"
}

ask --data "{\"name\": \"$topic\", \"partitions\": 1}" "$rest/topics" >/dev/null
ask --data '{"messages": [{"text": "hello", "key": "ann"}, {"text": "world", "key": "ann"}]}' \
    "$rest/topics/$topic/messages" >/dev/null

workers=$rest/topics/$topic/groups/readers/workers
worker=$workers/$(ask --request POST "$workers" | sed 's/.*"worker": *"\([^"]*\)".*/\1/')
ask "$worker/messages?encoding=text&wait_s=10"
echo
ask --data '{"offsets": {"0": 1}}' "$worker/commits" >/dev/null # the group continues after these
ask --request DELETE "$worker"
