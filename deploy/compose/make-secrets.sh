#!/bin/sh
# Keys of the Compose files, in ./secrets; those that exist are kept.
#
# Containers see a file with the mode that it has here, and run as other users: so everybody may
# read the files, and nobody but you the folder.
set -eu
folder=$(dirname "$0")/secrets
mkdir -p "$folder"
chmod 700 "$folder"

# secret FILE BYTES: that many random bytes in base64.
secret() {
    [ -e "$folder/$1" ] || head -c "$2" /dev/urandom | base64 | tr -d '\n' >"$folder/$1"
    chmod 444 "$folder/$1"
}

secret root-secret 30
secret cluster-key 32
secret grafana-password 15
[ -e "$folder/root-key" ] || { printf 'root:' && cat "$folder/root-secret"; } >"$folder/root-key"
chmod 444 "$folder/root-key"
echo "made $folder"
