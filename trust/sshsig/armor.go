package sshsig

import (
	"encoding/base64"
	"strings"
)

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----"
	armorEnd   = "-----END SSH SIGNATURE-----"
	// armorLine is the length of the lines that ssh-keygen writes.
	armorLine = 70
	// maxArmored bounds an armored signature: base64 adds a third, line ends little.
	maxArmored = 24 << 10
)

// Armor returns a signature between the two lines that ssh-keygen puts around it, byte for
// byte as ssh-keygen writes it. It checks nothing.
func Armor(signature []byte) []byte {
	var b strings.Builder
	b.WriteString(armorBegin + "\n")
	text := base64.StdEncoding.EncodeToString(signature)
	for len(text) > 0 {
		n := min(len(text), armorLine)
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString(armorEnd + "\n")
	return []byte(b.String())
}

// Unarmor returns the signature in a file that ssh-keygen has written. There is nothing
// around the two lines but one line end after the last; lines end in LF or CRLF, have any
// length but zero, and their base64 is canonical. It verifies nothing of the signature but
// how it begins. The error is [ErrInvalid], wrapped with the reason.
func Unarmor(armored []byte) ([]byte, error) {
	if len(armored) > maxArmored {
		return nil, invalid("an armored signature of %d bytes, more than %d", len(armored), maxArmored)
	}
	text := strings.ReplaceAll(string(armored), "\r\n", "\n")
	body, begins := strings.CutPrefix(text, armorBegin+"\n")
	body, ends := strings.CutSuffix(strings.TrimSuffix(body, "\n"), "\n"+armorEnd)
	if !begins || !ends {
		return nil, invalid("an armored signature is what stands from the line %s to the line %s", armorBegin, armorEnd)
	}
	lines := strings.Split(body, "\n")
	for _, line := range lines {
		// The decoder would skip a lone CR.
		if line == "" || strings.Contains(line, "\r") {
			return nil, invalid("the armor of the signature has lines that are empty or end in CR")
		}
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(strings.Join(lines, ""))
	if err != nil {
		return nil, invalid("the armored signature is not base64 in canonical form")
	}
	if len(signature) > MaxSignature {
		return nil, invalid("a signature of %d bytes, more than %d", len(signature), MaxSignature)
	}
	if !strings.HasPrefix(string(signature), magic) {
		return nil, invalid("a signature begins with %s", magic)
	}
	return signature, nil
}
