#!/usr/bin/env bash
# Runs forbidigo with tools/forbidigo.rules over all packages; exits 1 if anything is found.
# Messages may be settled in consumer/settle.go, by the designs that the product is measured against, and in tests, which play the other side.
set -euo pipefail

mapfile -t rules < <(grep -v '^#' tools/forbidigo.rules)
found=$(go tool -modfile=tools/go.mod forbidigo -analyze_types "${rules[@]}" -- ./... 2>&1) || {
	echo "$found" >&2
	exit 1
}
found=$(grep -Ev 'because "settle messages .* at .*(/consumer/settle|/bench/throughputdesigns|_test)\.go:' <<<"$found" | sort -u) || true
if [[ -n $found ]]; then
	echo "$found" >&2
	exit 1
fi
