// Package skdummy finds OpenSSH's imitation of a FIDO device, with which tests let
// ssh-keygen make keys and signatures as those of devices.
package skdummy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Variable names the environment variable with the path of another imitation.
const Variable = "SK_DUMMY"

const (
	// packaged is where Debian's package openssh-tests has the imitation, below the root.
	packaged = "usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so"
	// unpacked is where tools/setup.sh unpacks that package, below the folder of go.mod.
	unpacked = "bin/openssh-tests"
)

// Find returns the path of the imitation, a library that ssh-keygen loads as
// SSH_SK_PROVIDER.
func Find() (string, error) {
	if path := os.Getenv(Variable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", Variable, err)
		}
		return path, nil
	}
	places := []string{"/" + packaged}
	if root, err := module(); err == nil {
		places = []string{filepath.Join(root, unpacked, packaged), "/" + packaged}
	}
	for _, path := range places {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("OpenSSH's imitation of a FIDO device is missing: make setup fetches it (of the package openssh-tests), and %s names another", Variable)
}

// module returns the folder of go.mod, above the working directory of a test.
func module() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}
