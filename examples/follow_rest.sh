#!/bin/sh
# A topic by nothing but curl: make it, put to it, follow it as server-sent events.
#
# usage: TALOS_URL=http://HOST:PORT TALOS_KEY=ID:SECRET follow_rest.sh TOPIC [EVENTS]
#
# Ends after so many events. To go on later where a stream ended, send the id of its last event in
# the header Last-Event-ID.
set -eu
topic=${1:?usage: follow_rest.sh TOPIC [EVENTS]}
events=${2:-3}
rest=$TALOS_URL/rest/v1

ask() {
    curl --silent --show-error --fail-with-body --user "$TALOS_KEY" \
        --header 'Content-Type: application/json' "$@"
}

echo "making $topic"
ask --data "{\"name\": \"$topic\", \"partitions\": 2}" "$rest/topics" >/dev/null

# The same Idempotency-Key again would store nothing a second time.
for number in $(seq "$events"); do
    ask --header "Idempotency-Key: $topic-$number" \
        --data "{\"messages\": [{\"value\": {\"number\": $number}, \"key\": \"k$number\"}]}" \
        "$rest/topics/$topic/messages"
done

echo "following $topic"
folder=$(mktemp -d)
mkfifo "$folder/events"
curl --silent --show-error --fail --no-buffer --user "$TALOS_KEY" \
    "$rest/topics/$topic/events?from=start&encoding=json" >"$folder/events" &
reader=$!
trap 'kill $reader; rm -r "$folder"' EXIT
while read -r field value; do
    if [ "$field" = "data:" ]; then
        echo "$value"
        events=$((events - 1))
        [ "$events" -gt 0 ] || break
    fi
done <"$folder/events"
