package compiler

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/plangen"
)

// TestPassesWriteNothingBack: no pass changes the value of an earlier one.
func TestPassesWriteNothingBack(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	texts := map[string][]byte{"generated": plangen.Typed(60)}
	for i, file := range files {
		if testing.Short() && i%3 > 0 {
			continue
		}
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	judged := 0
	for name, text := range texts {
		c := newCompilation(Source{Name: name, Text: text}, testCatalog(t), nil)
		var before []string
		for _, p := range append(slices.Clone(passes), pass{"refuse", (*compilation).refuse}) {
			p.run(c)
			values := []any{c.linted, c.typed, c.judged, c.made}
			for i, sum := range before {
				require.Equal(t, sum, fingerprint(values[i]), "%s: %s changed what %s had made", name, p.name, passes[i].name)
			}
			if at := len(before); at < len(values) && !reflect.ValueOf(values[at]).IsNil() {
				before = append(before, fingerprint(values[at]))
			}
		}
		if len(c.linted.Documents) > 0 && len(before) >= 3 {
			judged++
		}
	}
	require.Greater(t, judged, cases(40))
	// The fingerprint sees the smallest change.
	c := newCompilation(Source{Name: "plan.yaml", Text: plangen.Typed(3)}, testCatalog(t), nil)
	c.run(passes)
	sums := [2]string{fingerprint(c.linted), fingerprint(c.typed)}
	c.typed.Documents[0].Edges[0].Condition += " "
	require.Equal(t, sums[0], fingerprint(c.linted))
	require.NotEqual(t, sums[1], fingerprint(c.typed))
	c.linted.Documents[0].Nodes[1].Sound = false
	require.NotEqual(t, sums[0], fingerprint(c.linted))
}

// fingerprint digests a value with all that it points to. Of a pooled schema it
// is the text: what is worked out of it is a cache. The catalog's index keeps the
// schemas that were asked for.
func fingerprint(v any) string {
	f := fingerprinter{Hash: sha256.New(), seen: map[pointer]int{}}
	f.write(reflect.ValueOf(v))
	return fmt.Sprintf("%x", f.Sum(nil))
}

type fingerprinter struct {
	hash.Hash
	seen map[pointer]int
}

type pointer struct {
	at uintptr
	to reflect.Type
}

func (f *fingerprinter) write(v reflect.Value) {
	if !v.IsValid() {
		io.WriteString(f, "nothing;")
		return
	}
	switch v.Type() {
	case reflect.TypeFor[*lint.Catalog]():
		return
	case reflect.TypeFor[*pool.Schema]():
		if !v.IsNil() {
			f.write(v.Elem().FieldByName("Digest"))
		}
		return
	}
	if path := v.Type().PkgPath(); v.Kind() == reflect.Struct && !strings.HasPrefix(path, "chimera.ai/engine/compiler") && !strings.HasPrefix(path, "chimera.ai/engine/internal") && !strings.HasPrefix(path, "chimera.ai/engine/plan") && !strings.HasPrefix(path, "chimera.ai/engine/diag") && path != "" {
		return // a compiled schema or expression
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			io.WriteString(f, "nil;")
			return
		}
		key := pointer{v.Pointer(), v.Type()}
		at, known := f.seen[key]
		if known {
			fmt.Fprintf(f, "again %d;", at)
			return
		}
		f.seen[key] = len(f.seen)
		f.write(v.Elem())
	case reflect.Interface:
		f.write(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			io.WriteString(f, v.Type().Field(i).Name+":")
			f.write(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		fmt.Fprintf(f, "%d[", v.Len())
		for i := range v.Len() {
			f.write(v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, k := range keys {
			fmt.Fprintf(f, "%v=", k)
			f.write(v.MapIndex(k))
		}
	case reflect.Func, reflect.Chan:
	default:
		fmt.Fprintf(f, "%v;", v)
	}
}
