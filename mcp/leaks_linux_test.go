package mcp

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// carrying lists the living processes with the given variable in their environment.
func carrying(variable string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if string(entry) == variable {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
