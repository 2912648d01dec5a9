//go:build !unix

package witness

import "os"

func openPlain(path string) (*os.File, error) { return os.Open(path) }
