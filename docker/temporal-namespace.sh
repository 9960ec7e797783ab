#!/bin/sh
# Creates the namespace, or sets its retention: a rebuild of the side store can read closed executions for that long.
set -eu

namespace="${TEMPORAL_NAMESPACE:-default}"
retention=720h

until temporal operator cluster health >/dev/null 2>&1; do
  echo "waiting for Temporal at $TEMPORAL_ADDRESS"
  sleep 2
done

if temporal operator namespace describe --namespace "$namespace" >/dev/null 2>&1; then
  temporal operator namespace update --namespace "$namespace" --retention "$retention"
else
  temporal operator namespace create --namespace "$namespace" --retention "$retention"
fi
