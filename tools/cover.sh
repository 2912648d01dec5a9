#!/bin/sh
# Prints how many statements of the packages that promises rest on are covered by the short
# tests of a checkout, this one by default. Child processes do not count.
set -eu
cd "${1:-.}"
profile=$(mktemp)
trap 'rm -f "$profile"' EXIT
status=0
go test -short -vet=off -timeout 60m -coverprofile="$profile" \
	-coverpkg=./workflows,./activities,./guardian,./ledger/...,./trust,./mcp ./... || status=$?
# A line is FILE:FROM,TO STATEMENTS COUNT, once for each test binary.
awk 'NR > 1 {
	statements[$1] = $2
	if ($3 > 0) covered[$1] = 1
}
END {
	for (block in statements) {
		package = block
		sub(/\/[^\/]*$/, "", package)
		all[package] += statements[block]
		if (block in covered) hit[package] += statements[block]
	}
	for (package in all) printf "%-40s %6d of %6d  %.2f %%\n", package, hit[package], all[package], 100 * hit[package] / all[package]
}' "$profile" | sort
exit "$status"
