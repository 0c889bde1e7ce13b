#!/bin/sh
# The entry point of a game-server image for GAMESERVER_ENGINE=swarm.
# It replaces the placeholders for the launch key and this machine's address, and runs the program.
set -eu
key=$(cat /run/secrets/svc-key)
eval "address=\${SVC_ADDRESS_$SVC_NODE:-}"
if [ -z "$address" ]; then # this machine has joined the swarm during the launch
  addresses=$(hostname -I 2>/dev/null || hostname -i 2>/dev/null || true)
  address=${addresses%% *}
fi
if [ -z "$address" ]; then
  echo "machine $SVC_NODE joined during the launch, and its address is not known yet" >&2
  exit 1
fi
count=$#
while [ "$count" -gt 0 ]; do
  word=$1
  shift
  case $word in
    SVC_KEY) word=$key ;;
    SVC_ADDRESS:*) word=$address:${word#SVC_ADDRESS:} ;;
  esac
  set -- "$@" "$word"
  count=$((count - 1))
done
exec "$@"
