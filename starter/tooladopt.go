package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chimera.ai/engine/config"
	"chimera.ai/engine/discover"
)

// adopt adds the servers of another host's file, or those of them that are named, to the
// configuration. It returns the names of those that were added, and those with the ones that were there.
func (p *Program) adopt(ctx context.Context, ask *asker, from string, named []string) (added, names []string, err error) {
	c, err := p.settings()
	if err != nil {
		return nil, nil, err
	}
	resolver := p.Packages
	if resolver.Client == nil {
		if resolver.Client, err = discover.NewClient(nil, ""); err != nil {
			return nil, nil, misuse("%s", err)
		}
	}
	found, err := p.found(ctx, c.MCPRegistry, from)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range found.Notes {
		if n.Server != "" && len(named) > 0 && !slices.Contains(named, n.Server) {
			continue
		}
		if n.Line > 0 {
			p.say("%s:%d:%d: %s", from, n.Line, n.Column, foreign(n.Text))
		} else {
			p.say("%s: %s", from, foreign(n.Text))
		}
	}
	var all []string
	var add []discover.Server
	for _, s := range found.Servers {
		all = append(all, s.Name)
		if len(named) > 0 && !slices.Contains(named, s.Name) {
			continue
		}
		names = append(names, s.Name)
		if _, there := c.MCPServers[s.Name]; there {
			p.say("%s: the configuration has a server of that name, which stays as it is", foreign(s.Name))
			continue
		}
		if err := p.pin(ctx, ask, resolver, &s); err != nil {
			return nil, nil, err
		}
		add, added = append(add, s), append(added, s.Name)
	}
	for _, name := range named {
		if !slices.Contains(all, name) {
			return nil, nil, misuse("%s has no server %s", from, foreign(name)).meant("", name, all, "")
		}
	}
	if len(names) == 0 {
		return nil, nil, negative("%s has no server that can be taken", from)
	}
	if len(add) == 0 {
		return added, names, nil
	}
	file := c.File
	if file == "" {
		file = config.DefaultFile
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, misuse("%s", err)
	}
	next, err := discover.YAML(text, add)
	if err != nil {
		return nil, nil, misuse("%s: %s", file, err)
	}
	if err := p.rewriteSettings(file, text, next); err != nil {
		return nil, nil, err
	}
	p.say("%s in %s: %s", plural(len(add), "server"), file, foreign(strings.Join(added, ", ")))
	return added, names, nil
}

// found reads a file, or what stands at an address, or what the registry has of a name. A file
// takes precedence over a name.
func (p *Program) found(ctx context.Context, registry config.MCPRegistry, from string) (found discover.Found, err error) {
	name, named := discover.ParseServerName(from)
	if named {
		_, err := os.Stat(from)
		named = errors.Is(err, fs.ErrNotExist)
	}
	if at := strings.HasPrefix(from, "https://"); at || named {
		if named && registry.URL == "" {
			return found, misuse("there is no file %s, and no registry in which to look it up", from).
				withHint("Set mcp_registry.url, such as https://registry.modelcontextprotocol.io.")
		}
		client, err := discover.NewClient(registry.Addresses, registry.CAFile)
		if err != nil {
			return found, misuse("mcp_registry: %s", err)
		}
		r := discover.Resolver{Client: client}
		if at {
			found, err = r.Fetch(ctx, from)
		} else {
			found, err = r.Lookup(ctx, registry.URL, name)
		}
		switch {
		case errors.Is(err, discover.ErrNotFound):
			return found, negative("%s", err)
		case err != nil:
			return found, unanswered("%s", err)
		}
		return found, nil
	}
	src, err := p.read(from)
	if err != nil {
		return found, err
	}
	if filepath.Base(from) == "server.json" {
		found, err = discover.ServerJSON(src.Text)
	} else {
		found, err = discover.Parse(from, src.Text)
	}
	if err != nil {
		return found, misuse("%s", err)
	}
	return found, nil
}

// pin gives the packages of a server exact versions, as far as their registries tell them.
func (p *Program) pin(ctx context.Context, ask *asker, r discover.Resolver, s *discover.Server) error {
	for s.Unpinned != nil {
		version, err := r.Version(ctx, *s.Unpinned)
		if ctx.Err() != nil {
			return unanswered("interrupted")
		}
		if err != nil {
			why := "its registry does not say which version there is"
			if errors.As(err, new(net.Error)) || errors.Is(err, context.DeadlineExceeded) {
				why = "its registry was not reached"
			}
			p.say("%s: %s is not pinned, and %s: %s", foreign(s.Name), foreign(s.Unpinned.String()), why, foreign(err.Error()))
			return nil
		}
		what := s.Unpinned.String()
		if ask.ask {
			yes, err := ask.confirm(true, "%s: %s is not pinned: whoever publishes it chooses what runs here. Pin it at %s? [Y/n]", foreign(s.Name), foreign(what), foreign(version))
			if err != nil || !yes {
				return err
			}
		}
		if err := s.Pin(version); err != nil {
			return negative("%s: %s", foreign(s.Name), err)
		}
		p.say("%s: %s is pinned at %s", foreign(s.Name), foreign(what), foreign(version))
	}
	return nil
}
