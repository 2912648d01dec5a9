// Package sshkeygen has OpenSSH's own program sign: it has the keys, their passphrases, and
// the tokens that are to be touched.
package sshkeygen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/trust/sshsig"
)

// Sign signs a message with a key in a file, whose private part may be with an agent or on a
// token, and returns the signature as package sshsig has it. ssh-keygen asks on the terminal
// for what it needs.
func Sign(ctx context.Context, file string, message []byte) ([]byte, error) {
	// It keeps the terminal and the environment, where its agent is.
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-Y", "sign", "-n", sshsig.Namespace, "-f", file)
	cmd.Stdin = bytes.NewReader(message)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("ssh-keygen is not installed, which signs with OpenSSH keys")
	}
	if err != nil {
		return nil, fmt.Errorf("ssh-keygen does not sign with %s: %w: %s", file, err, excerpt.Bytes(strings.TrimSpace(said.String()), 400))
	}
	return sshsig.Unarmor(out)
}
