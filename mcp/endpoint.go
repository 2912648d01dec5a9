package mcp

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"chimera.ai/engine/internal/program"
)

// Endpoint returns what identifies the endpoint of a server, and no secret, as a decoded object of
// JSON. It reads the executable of a child and the files that are pinned, or the file with the
// authorities of a remote server. Of a child it has "transport" ("stdio"), and what
// [program.Program.Identity] has; of a remote server "transport" ("http" or "sse"), "url", and, where
// they are configured, "ca" (the authorities' keys), "pins", "server_name", "issuer" and "token_url".
// Keys are digests of SubjectPublicKeyInfo, sorted: an authority whose certificate is renewed is the
// same. [fingerprint.Endpoint] names the whole by a digest.
func (s Server) Endpoint() (map[string]any, error) {
	identity, _, err := s.endpoint()
	return identity, err
}

// endpoint also returns the authorities that it has read, nil for those of the system.
func (s Server) endpoint() (map[string]any, []*x509.Certificate, error) {
	if err := s.Check(); err != nil {
		return nil, nil, err
	}
	if s.Unavailable != "" {
		return nil, nil, errors.New(s.Unavailable)
	}
	if s.URL == "" {
		all, err := program.Program{Command: s.Command, Args: s.Args, Env: s.Env, Public: s.Public, Dir: s.Dir, Pin: s.Pin, Base: s.Base}.Identity()
		if err != nil {
			return nil, nil, err
		}
		all["transport"] = "stdio"
		return all, nil, nil
	}
	all := map[string]any{"transport": "http", "url": s.URL}
	if s.SSE {
		all["transport"] = "sse"
	}
	var authorities []*x509.Certificate
	if s.TLS.CAFile != "" {
		var err error
		if authorities, err = readCAs(s.TLS.CAFile); err != nil {
			return nil, nil, err
		}
		keys := make([]string, len(authorities))
		for i, c := range authorities {
			keys[i] = keyDigest(c)
		}
		all["ca"] = sorted(keys)
	}
	if len(s.TLS.Pins) > 0 {
		all["pins"] = sorted(s.TLS.Pins)
	}
	if s.TLS.ServerName != "" {
		all["server_name"] = s.TLS.ServerName
	}
	if s.OAuth != nil {
		all["issuer"], all["token_url"] = s.OAuth.Issuer, s.OAuth.TokenURL
	}
	return all, authorities, nil
}

// sorted returns a list of JSON, without duplicates.
func sorted(texts []string) []any {
	var list []any
	for _, text := range slices.Compact(slices.Sorted(slices.Values(texts))) {
		list = append(list, text)
	}
	return list
}

// maxCAs bounds a file with authorities, in bytes.
const maxCAs = 16 << 20

// readCAs reads the certificates of a PEM file. It passes over those that cannot be read, as crypto/x509
// does; one at least is there.
func readCAs(file string) ([]*x509.Certificate, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the authorities: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCAs+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the authorities: %w", err)
	case len(text) > maxCAs:
		return nil, fmt.Errorf("the authorities: %s is over %d bytes", file, maxCAs)
	}
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the authorities: %s holds no certificate", file)
	}
	return all, nil
}
