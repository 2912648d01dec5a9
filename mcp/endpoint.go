package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Endpoint returns what identifies the endpoint of a server, and no secret, as an object of JSON. It
// reads the executable of a child, or the file with the authorities of a remote server. Of a child
// it has "transport" ("stdio"), "path" (of the executable, with no symbolic link in it), "digest" (of its
// bytes), "args", "env" (the names) and "cwd"; of a remote server "transport" ("http" or "sse"), "url",
// and, where they are configured, "ca" (the digest of the file), "pins", "server_name", "issuer" and
// "token_url". Digests are "sha256:" and hexadecimal digits; names and pins are sorted.
func (s Server) Endpoint() (map[string]any, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("MCP server: %w", err)
	}
	if s.URL == "" {
		return s.child()
	}
	all := map[string]any{"transport": "http", "url": s.URL}
	if s.SSE {
		all["transport"] = "sse"
	}
	if s.TLS.CAFile != "" {
		digest, err := fileDigest(s.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("MCP server: the authorities: %w", err)
		}
		all["ca"] = digest
	}
	if len(s.TLS.Pins) > 0 {
		all["pins"] = slices.Compact(slices.Sorted(slices.Values(s.TLS.Pins)))
	}
	if s.TLS.ServerName != "" {
		all["server_name"] = s.TLS.ServerName
	}
	if s.OAuth != nil {
		all["issuer"], all["token_url"] = s.OAuth.Issuer, s.OAuth.TokenURL
	}
	return all, nil
}

func (s Server) child() (map[string]any, error) {
	path := s.Command
	if strings.ContainsRune(path, filepath.Separator) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}
	} else {
		found, err := exec.LookPath(path)
		if err != nil {
			return nil, fmt.Errorf("MCP server: find the executable: %w", err)
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, fmt.Errorf("MCP server: find the executable: %w", err)
	}
	digest, err := fileDigest(path)
	if err != nil {
		return nil, fmt.Errorf("MCP server: the executable: %w", err)
	}
	return map[string]any{
		"transport": "stdio", "path": path, "digest": digest, "cwd": s.Dir,
		"args": append([]string{}, s.Args...), "env": append([]string{}, slices.Sorted(maps.Keys(s.Env))...),
	}, nil
}

// fileDigest returns the digest of a regular file.
func fileDigest(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New(path + " is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
