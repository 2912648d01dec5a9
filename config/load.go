package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// maxFile bounds chimera.yaml, in bytes.
const maxFile = 1 << 20

// Load reads the file at path, or [DefaultFile] if path is "" and that file
// exists, and applies the environment. The configuration is usable only if the
// diagnostics contain no error.
func Load(path string) (Config, diag.Diagnostics) {
	return load(path, environ{os.LookupEnv, os.Environ})
}

func load(path string, env environ) (Config, diag.Diagnostics) {
	named := path != ""
	if !named {
		path = DefaultFile
	}
	src, err := read(path)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return parse("", nil, env)
	}
	if err != nil {
		var ds diag.Diagnostics
		ds.Add(diag.Diagnostic{
			Code:    diag.ConfigFile,
			Summary: "the configuration file cannot be read",
			Detail:  err.Error(),
			Subject: diag.Range{File: path},
		})
		return Config{}, ds
	}
	return parse(path, src, env)
}

// read reads a whole file of bounded size.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(src) > maxFile {
		return nil, fmt.Errorf("%s is over %d bytes", path, maxFile)
	}
	return src, nil
}

// parse makes a configuration from a file's text and an environment. An empty file name
// means that there is no file.
func parse(file string, src []byte, env environ) (Config, diag.Diagnostics) {
	l := &loader{config: Default(), said: map[string]bool{}}
	l.config.File = file
	if file != "" {
		dir, err := filepath.Abs(filepath.Dir(file)) // children run in other folders
		if err != nil {
			l.report(diag.ConfigFile, diag.Range{File: file}, "the folder of the configuration file cannot be found", err.Error())
			return l.config, l.ds
		}
		l.dir = dir
		docs, found := syntax.Parse(file, src, syntax.Limits{Bytes: maxFile, Depth: 32, Nodes: 100_000})
		for _, d := range found {
			d.Code = diag.ConfigFile
			l.ds.Add(d)
		}
		switch {
		case len(docs) > 1:
			l.report(diag.ConfigFile, docs[1].Root.Range(), "the file holds more than one document", "A configuration is one YAML document.")
		case len(docs) == 1:
			l.document(docs[0].Root)
		}
	}
	l.environment(env)
	if n := len(l.config.Ledger.Witnesses); l.config.Ledger.Quorum > n {
		l.report(diag.ConfigValue, diag.Range{File: file}, fmt.Sprintf("ledger.quorum asks for %d of %d witnesses", l.config.Ledger.Quorum, n), "")
	}
	l.config.stored = l.said["store.driver"] || l.said["store.path"] || l.said["store.url"]
	if !l.ds.HasErrors() {
		l.connection(env)
	}
	l.ds.Sort()
	return l.config, l.ds
}

// loader collects a configuration and what is wrong with it.
type loader struct {
	config Config
	dir    string
	// said holds the keys that the file or the environment sets.
	said map[string]bool
	ds   diag.Diagnostics
}
