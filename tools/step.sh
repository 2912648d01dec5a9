#!/bin/sh
# Usage: step.sh TEXT COMMAND…
# Says TEXT, runs the command, and says how long it took: on one line, if the command has
# nothing to say.
set -eu

printf '%s … ' "$1" >&2
shift
begun=$(date +%s)
{ "$@" 2>&1 || echo failed; } | {
	last=
	while IFS= read -r line; do
		[ -n "$last" ] || echo
		last=$line
		printf '%s\n' "$line"
	done
	[ "$last" != failed ]
} >&2
echo "done in $(($(date +%s) - begun)) s" >&2
