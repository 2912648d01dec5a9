#!/bin/sh
# The operations of people: the name of one is the argument, its input is JSON on
# standard input, and its output JSON on standard output.
set -eu
case "$1" in
greet) sed 's/^{"name":"\(.*\)"}$/{"greeting":"Hello, \1!"}/' ;;
*)
    echo "people has no operation $1" >&2
    exit 1
    ;;
esac
