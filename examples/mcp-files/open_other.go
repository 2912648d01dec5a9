//go:build !unix

package main

// nonblock is nothing where opening does not wait.
const nonblock = 0
