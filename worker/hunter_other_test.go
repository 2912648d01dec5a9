//go:build !linux

package main

const envHunter = "WORKER_TEST_HUNT"

func hunter() { panic("the test of it is for Linux") }
