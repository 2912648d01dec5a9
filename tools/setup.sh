#!/bin/sh
# Installs what the tests need beside Go: a C compiler for the race detector,
# Node.js with npm for real MCP servers and a foreign Temporal client, a browser,
# unless CHROME names one, PostgreSQL, unless DATABASE_URL names a server, SoftHSM with
# OpenSC for keys on tokens, and OpenSSH with its imitation of a FIDO device, unless
# SK_DUMMY names one. On Debian and its like by apt; elsewhere it names what is missing
# and stops.
set -eu

# Node.js 20 is the oldest that the packages in internal/npm support.
oldest_node=20

# Debian's package openssh-tests has OpenSSH's imitation of a FIDO device. It is unpacked,
# not installed: it depends on a server that nobody needs here.
dummy=usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so
unpacked=bin/openssh-tests

cd "$(dirname "$0")/.."

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
	command -v pkcs11-tool >/dev/null 2>&1 || echo opensc
	command -v ssh-keygen >/dev/null 2>&1 || echo openssh-client
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
# trust/pkcs11 look for it, and what makes tokens.
softhsm() {
	command -v softhsm2-util >/dev/null 2>&1 || return 1
	for module in /usr/lib/softhsm /usr/lib/pkcs11 /usr/lib64/pkcs11 /usr/local/lib/softhsm /opt/homebrew/lib/softhsm; do
		[ ! -e "$module/libsofthsm2.so" ] || return 0
	done
	return 1
}

# device tells whether there is an imitation of a FIDO device, where internal/skdummy
# looks for it.
device() {
	[ -n "${SK_DUMMY:-}" ] || [ -e "$unpacked/$dummy" ] || [ -e "/$dummy" ]
}

# update updates the lists of packages, once.
as_root=
updated=
update() {
	[ -z "$updated" ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null 2>&1 || fail "missing: $1; neither root nor sudo is here to install them"
		as_root=sudo
	fi
	export DEBIAN_FRONTEND=noninteractive
	$as_root apt-get update -q >&2 || fail "apt-get update has failed"
	updated=yes
}

# unpack downloads the package openssh-tests into a folder, and unpacks it there.
unpack() (
	cd "$1" && apt-get download -q openssh-tests >&2 && dpkg-deb -x openssh-tests_*.deb . && rm openssh-tests_*.deb
)

command -v go >/dev/null 2>&1 || fail "go is missing: install Go 1.26 or later (https://go.dev/dl)"
[ -z "${CHROME:-}" ] || browser || fail "CHROME is $CHROME, which is no program"
[ -z "${SK_DUMMY:-}" ] || [ -e "$SK_DUMMY" ] || fail "SK_DUMMY is $SK_DUMMY, which is no file"

packages=$(missing | tr '\n' ' ')
if [ -n "$packages" ]; then
	if ! command -v apt-get >/dev/null 2>&1; then
		fail "missing: $packages(Debian's names); install them and try again"
	fi
	echo "setup: installing $packages" >&2
	update "$packages"
	# shellcheck disable=SC2086 # a list of words
	$as_root apt-get install -q -y --no-install-recommends $packages >&2 || fail "could not install $packages"
	packages=$(missing | tr '\n' ' ')
	[ -z "$packages" ] || fail "still missing: $packages"
fi

if ! device; then
	if ! command -v apt-get >/dev/null 2>&1; then
		fail "missing: sk-dummy.so of OpenSSH's regression tests (Debian's package openssh-tests); name it by SK_DUMMY and try again"
	fi
	echo "setup: fetching openssh-tests" >&2
	part=$unpacked.part
	rm -rf "$part" "$unpacked"
	mkdir -p "$part"
	unpack "$part" || {
		update openssh-tests
		unpack "$part" || fail "could not fetch openssh-tests"
	}
	mv "$part" "$unpacked"
	device || fail "openssh-tests has no $dummy; name another imitation of a FIDO device by SK_DUMMY"
fi

major=$(node_major)
if [ "${major:-0}" -lt "$oldest_node" ]; then
	fail "node is version ${major:-unknown}, but the tests need $oldest_node or later (https://nodejs.org)"
fi
