package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Load lists the packages of the module in dir and everything that they reach.
// It adds the imports of files that this machine's operating system and build
// tags leave out, so that a policy cannot be broken there unseen.
func Load(dir string) (Graph, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Dir,Imports,IgnoredGoFiles", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	g := Graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath     string
			Standard       bool
			Dir            string
			Imports        []string
			IgnoredGoFiles []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		if ours(p.ImportPath) {
			for _, name := range p.IgnoredGoFiles {
				more, err := imports(filepath.Join(p.Dir, name))
				if err != nil {
					return nil, err
				}
				p.Imports = append(p.Imports, more...)
			}
			slices.Sort(p.Imports)
			p.Imports = slices.Compact(p.Imports)
		}
		g[p.ImportPath] = Package{Path: p.ImportPath, Standard: p.Standard, Imports: p.Imports}
	}
}

func imports(file string) ([]string, error) {
	if strings.HasSuffix(file, "_test.go") {
		return nil, nil
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("read imports: %w", err)
	}
	var paths []string
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("read imports of %s: %w", file, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Inits lists the places, "file:line", of init functions in the Go files of dir
// and below that are not tests. Registries that fill themselves hide what a
// program is made of, and in workflow code they run where Temporal cannot see them.
func Inits(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("look for init functions: %w", err)
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				pos := fset.Position(fn.Pos())
				found = append(found, fmt.Sprintf("%s:%d", pos.Filename, pos.Line))
			}
		}
		return nil
	})
	return found, err
}
