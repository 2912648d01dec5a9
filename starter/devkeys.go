package main

import (
	"strings"

	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/devroot"
	"chimera.ai/engine/store"
)

// devKeys are the files and the folder of keys that dev mode may make, and whether each was there.
type devKeys struct {
	paths []string
	kept  []bool
}

func devKeysOf(settings config.Config, o store.Options) (k devKeys) {
	paths := devroot.Keys(settings.Dev.Dir)
	if o.Driver != store.Postgres {
		paths = append(paths, o.KeyFile())
	}
	if folder, _, err := store.SubjectKeys(o); err == nil && folder != "" {
		paths = append(paths, folder)
	}
	for _, path := range paths {
		k.paths, k.kept = append(k.paths, path), append(k.kept, exists(path))
	}
	return k
}

// say says which keys were made, and which were there. Those that another place has are not.
func (k devKeys) say(p *Program) {
	lists := map[bool][]string{}
	for i, path := range k.paths {
		if exists(path) {
			lists[k.kept[i]] = append(lists[k.kept[i]], printable(fromHere(path)))
		}
	}
	label := "keys"
	for _, kept := range []bool{false, true} {
		if len(lists[kept]) > 0 {
			p.say("%-10s %s: %s", label, map[bool]string{false: "made", true: "kept"}[kept], strings.Join(lists[kept], ", "))
			label = ""
		}
	}
}
