package main

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/config"
	"chimera.ai/engine/discover"
)

// pinFiles writes the files among the arguments of servers to mcpServers.SERVER.pin, as --pin says, or people
// on a terminal, who are asked where the places of tools are about to be pinned for the first time. It reports
// whether the configuration has changed.
func (p *Program) pinFiles(ask *asker, o *intakeOptions, c *config.Config, base map[string]catalog.Template, servers []string) (changed bool, err error) {
	asks := ask.ask && o.pin == pinUnsaid && o.here != hereNo
	if !asks && o.pin != pinYes {
		return false, nil
	}
	for i, name := range servers {
		if slices.Contains(servers[:i], name) {
			continue
		}
		server, _, err := serverOf(*c, name)
		if err != nil {
			continue // it is said when the server is asked
		}
		place, err := server.Endpoint()
		if err != nil {
			continue
		}
		files := loaded(server, place)
		if len(files) == 0 && o.pin == pinYes && len(server.Pin) == 0 {
			p.say("%s: none of its arguments is a file here: there is nothing to pin", foreign(name))
		}
		if len(files) == 0 || asks && placed(base, name) {
			continue
		}
		if asks {
			yes, err := ask.confirm(true, "%s: it loads %s, which is not pinned: whoever changes that chooses what runs here. Pin it as it is now, in mcpServers.%s.pin? [Y/n]", foreign(name), foreign(strings.Join(files, ", ")), foreign(name))
			if err != nil {
				return changed, err
			}
			if !yes {
				continue
			}
		}
		if err := p.setPin(cmp.Or(c.File, config.DefaultFile), name, files); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// placed reports whether a catalog pins where a tool of a server is.
func placed(base map[string]catalog.Template, server string) bool {
	for _, t := range base {
		if t.Provider == server && len(t.Endpoints) > 0 {
			return true
		}
	}
	return false
}

// setPin writes mcpServers.SERVER.pin.
func (p *Program) setPin(file, server string, files []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return misuse("%s", err)
	}
	next, err := discover.Set(text, server, "pin", files)
	if err != nil {
		return misuse("%s", err).withHint("Set mcpServers.%s.pin.", server)
	}
	if err := p.rewriteSettings(file, text, next); err != nil {
		return err
	}
	p.say("%s: %s is pinned by what it holds, in %s (mcpServers.%s.pin)", foreign(server), foreign(strings.Join(files, ", ")), file, foreign(server))
	return nil
}

// What --pin says.
const (
	pinUnsaid = ""
	pinYes    = "true"
)
