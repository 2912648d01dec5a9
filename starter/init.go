package main

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/schemas"
)

// project holds the files that chimera init creates, except the schemas.
//
//go:embed project
var project embed.FS

// made is the JSON answer of init.
type made struct {
	Dir   string   `json:"dir"`
	Files []string `json:"files"`
}

// projectFile is a file of a new folder.
type projectFile struct {
	name string
	text []byte
	mode fs.FileMode
}

func initCommand(p *Program, _ *flag.FlagSet) action {
	return func(_ context.Context, operands []string) error {
		dir := "."
		if len(operands) > 0 {
			dir = operands[0]
		}
		list, err := projectFiles()
		if err != nil {
			return err
		}
		answer := made{Dir: dir}
		for _, f := range list { // write nothing if any file exists
			if _, err := os.Lstat(filepath.Join(dir, f.name)); !errors.Is(err, fs.ErrNotExist) {
				if err != nil {
					return misuse("%s", err)
				}
				return misuse("%s is there already, and nothing was written", filepath.Join(dir, f.name)).
					withHint("Name another folder: chimera init DIR.")
			}
		}
		for _, f := range list {
			if err := f.write(dir); err != nil {
				return misuse("%s", err)
			}
			answer.Files = append(answer.Files, f.name)
		}
		if p.json() {
			return p.document(answer)
		}
		for _, name := range answer.Files {
			p.printf("%s\n", filepath.Join(dir, name))
		}
		in := ""
		if dir != "." {
			in = "in " + printable(dir) + ", "
		}
		p.say("%scheck the plan:  chimera compile plan.yaml\nand run it:  chimera dev --run plan.yaml --input '{\"name\": \"Ada\"}'", in)
		return nil
	}
}

// projectFiles returns the files of a new folder, including this build's schemas for
// editors.
func projectFiles() ([]projectFile, error) {
	var list []projectFile
	for _, name := range []string{"plan.yaml", "catalog.yaml", "chimera.yaml", "people.sh"} {
		text, err := project.ReadFile("project/" + name)
		if err != nil {
			return nil, err
		}
		mode := fs.FileMode(0o644)
		if filepath.Ext(name) == ".sh" {
			mode = 0o755
		}
		list = append(list, projectFile{name, text, mode})
	}
	for _, name := range []string{"plan", "catalog", "config"} {
		text, ok := schemas.Named(name)
		if !ok {
			return nil, unanswered("there is no schema %s", name)
		}
		list = append(list, projectFile{filepath.Join(".schemas", name+".json"), text, 0o644})
	}
	return list, nil
}

// write creates the file, and its folder if necessary.
func (f projectFile) write(dir string) error {
	path := filepath.Join(dir, f.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = file.Write(f.text)
	return errors.Join(err, file.Close())
}
