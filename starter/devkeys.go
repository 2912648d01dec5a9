package main

import (
	"strings"

	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/devroot"
	"chimera.ai/engine/store"
)

// devKeys are the files and the folder of keys that dev mode may make.
type devKeys []devKey

type devKey struct {
	path string
	// kept reports that it was there.
	kept bool
}

func devKeysOf(settings config.Config, o store.Options) (all devKeys) {
	paths := devroot.Keys(settings.Dev.Dir)
	if o.Driver != store.Postgres {
		paths = append(paths, o.KeyFile())
	}
	if folder, _, err := store.SubjectKeys(o); err == nil && folder != "" {
		paths = append(paths, folder)
	}
	for _, path := range paths {
		all = append(all, devKey{path, exists(path)})
	}
	return all
}

// say says which keys were made, and which were there. Those that another place has are not.
func (all devKeys) say(p *Program) {
	var made, kept []string
	for _, k := range all {
		switch shown := printable(fromHere(k.path)); {
		case !exists(k.path):
		case k.kept:
			kept = append(kept, shown)
		default:
			made = append(made, shown)
		}
	}
	label := "keys"
	if len(made) > 0 {
		p.say("%-10s made: %s", label, strings.Join(made, ", "))
		label = ""
	}
	if len(kept) > 0 {
		p.say("%-10s kept: %s", label, strings.Join(kept, ", "))
	}
}
