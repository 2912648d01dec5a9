#!/bin/sh
# Installs what the tests need beside Go: a C compiler for the race detector,
# Node.js with npm for real MCP servers and a foreign Temporal client, a browser,
# unless CHROME names one, PostgreSQL, unless DATABASE_URL names a server, and SoftHSM
# for keys on tokens. On Debian and its like by apt; elsewhere it names what is missing
# and stops.
set -eu

# Node.js 20 is the oldest that the packages in internal/npm support.
oldest_node=20

fail() {
	echo "setup: $*" >&2
	exit 1
}

node_major() {
	node --version 2>/dev/null | sed -n 's/^v\([0-9][0-9]*\).*/\1/p'
}

# missing lists packages by their Debian names.
missing() {
	command -v "${CC:-cc}" >/dev/null 2>&1 || echo gcc libc6-dev
	command -v node >/dev/null 2>&1 || echo nodejs
	command -v npm >/dev/null 2>&1 || echo npm
	browser || echo chromium
	postgres || echo postgresql
	softhsm || echo softhsm2
}

# browser tells whether there is a Chromium or a Chrome.
browser() {
	for name in ${CHROME:-chromium chromium-browser google-chrome google-chrome-stable}; do
		! command -v "$name" >/dev/null 2>&1 || return 0
	done
	return 1
}

# postgres tells whether there is a server to test with, or what starts one.
postgres() {
	[ -n "${DATABASE_URL:-}" ] || command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

# softhsm tells whether there is a PKCS #11 module to test with, where the tests of
# trust/pkcs11 look for it.
softhsm() {
	for module in /usr/lib/softhsm /usr/lib/pkcs11 /usr/lib64/pkcs11 /usr/local/lib/softhsm /opt/homebrew/lib/softhsm; do
		[ ! -e "$module/libsofthsm2.so" ] || return 0
	done
	return 1
}

command -v go >/dev/null 2>&1 || fail "go is missing: install Go 1.26 or later (https://go.dev/dl)"
[ -z "${CHROME:-}" ] || browser || fail "CHROME is $CHROME, which is no program"

packages=$(missing | tr '\n' ' ')
if [ -n "$packages" ]; then
	if ! command -v apt-get >/dev/null 2>&1; then
		fail "missing: $packages(Debian's names); install them and try again"
	fi
	as_root=
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null 2>&1 || fail "missing: $packages; neither root nor sudo is here to install them"
		as_root=sudo
	fi
	echo "setup: installing $packages" >&2
	export DEBIAN_FRONTEND=noninteractive
	$as_root apt-get update -q >&2 || fail "apt-get update has failed"
	# shellcheck disable=SC2086 # a list of words
	$as_root apt-get install -q -y --no-install-recommends $packages >&2 || fail "could not install $packages"
	packages=$(missing | tr '\n' ' ')
	[ -z "$packages" ] || fail "still missing: $packages"
fi

major=$(node_major)
if [ "${major:-0}" -lt "$oldest_node" ]; then
	fail "node is version ${major:-unknown}, but the tests need $oldest_node or later (https://nodejs.org)"
fi
