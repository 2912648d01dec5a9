//go:build unix && !linux

package process

// threadID is none: there the end of a thread ends nothing else.
func threadID() int { return 0 }
