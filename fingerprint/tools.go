package fingerprint

import (
	"cmp"
	"fmt"
	"slices"
)

// Tools returns the digest of all tools of a server, in whatever order they are: "sha256:" and 64
// hex digits. It refuses two of one name.
func Tools(prints []Print) (string, error) {
	all, err := listed(prints)
	if err != nil {
		return "", err
	}
	return digest("mcp-server-tools/1", all)
}

// listed are the names and fingerprints of tools, in the order of the names.
func listed(prints []Print) ([]any, error) {
	sorted := slices.SortedFunc(slices.Values(prints), func(a, b Print) int { return cmp.Compare(a.Tool, b.Tool) })
	list := make([]any, len(sorted))
	for i, p := range sorted {
		if i > 0 && sorted[i-1].Tool == p.Tool {
			return nil, fmt.Errorf("two tools are called %.200q", p.Tool)
		}
		list[i] = map[string]any{"name": p.Tool, "fingerprint": p.Digest}
	}
	return list, nil
}
