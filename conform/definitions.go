package conform

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// pagesEnd lists the tools that all other cases are about.
func (s *suite) pagesEnd(ctx context.Context) []Result {
	tools, err := s.list(ctx, s.client, true)
	if err == nil {
		s.introduction, err = s.client.Introduction(ctx, s.target.Name)
	}
	switch {
	case err == nil:
		s.tools, s.listed = tools, true
	case failure(err) == contract.Unsent:
		s.unreached = err
	default:
		return []Result{fail("", "%s: answer every page of tools/list with the array tools, whose names are unique, and leave out nextCursor on the last", say(err))}
	}
	return nil
}

// toolName is what the protocol allows as a name, in its version of 2025-11-25.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func (s *suite) namesValid(context.Context) (out []Result) {
	folded := map[string]string{}
	for _, t := range s.tools {
		if !toolName.MatchString(t.Name) {
			out = append(out, fail(t.Name, "/name: rename it to 1 to 128 of the characters A–Z, a–z, 0–9, _, - and ."))
		}
		low := strings.ToLower(t.Name)
		if other, ok := folded[low]; ok {
			out = append(out, warn(t.Name, "/name: it differs from %s only in case, which people and models confuse: rename one", excerpt.Quote(other, 200)))
		}
		folded[low] = t.Name
	}
	return out
}

func (s *suite) listStable(ctx context.Context) []Result {
	again, err := s.list(ctx, s.client, false)
	if err != nil {
		return []Result{fail("", "the second tools/list of a session failed: %s", say(err))}
	}
	return changed(s.tools, again, "in the second listing of a session", "list the same tools until you send notifications/tools/list_changed")
}

// restartStable leaves a new process for the cases that follow. The old one has ended by then, since
// some servers cannot run twice.
func (s *suite) restartStable(ctx context.Context) []Result {
	err := s.client.Close()
	s.client = s.target.Open()
	if err != nil {
		return []Result{fail("", "it cannot be restarted: %s", err)}
	}
	again, err := s.list(ctx, s.client, true)
	if err != nil {
		return []Result{fail("", "after a restart, the tools could not be listed: %s", say(err))}
	}
	return changed(s.tools, again, "after a restart", "leave out of definitions what differs from one process to the next")
}

// changed compares two listings.
func changed(before, after []tool, when, change string) (out []Result) {
	now := map[string]*tool{}
	for i := range after {
		now[after[i].Name] = &after[i]
	}
	for _, t := range before {
		n := now[t.Name]
		delete(now, t.Name)
		switch {
		case n == nil:
			out = append(out, fail(t.Name, "it is missing %s: %s", when, change))
		case !reflect.DeepEqual(t.fields, n.fields):
			out = append(out, fail(t.Name, "%s is different %s: %s", difference(t.fields, n.fields, ""), when, change))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		out = append(out, fail(name, "it is new %s: %s", when, change))
	}
	same := func(a, b tool) bool { return a.Name == b.Name }
	if len(out) == 0 && !slices.EqualFunc(before, after, same) {
		out = append(out, warn("", "the tools have another order %s, which readers of whole listings take for a change: sort them", when))
	}
	return out
}

// difference returns a JSON pointer to the first difference between two values that have one.
func difference(a, b any, at string) string {
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok {
			return at
		}
		all := map[string]bool{}
		for _, m := range []map[string]any{a, other} {
			for k := range m {
				all[k] = true
			}
		}
		for _, k := range slices.Sorted(maps.Keys(all)) {
			x, hasX := a[k]
			y, hasY := other[k]
			if hasX != hasY {
				return at + "/" + escape(k)
			}
			if !reflect.DeepEqual(x, y) {
				return difference(x, y, at+"/"+escape(k))
			}
		}
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return at
		}
		for i := range a {
			if !reflect.DeepEqual(a[i], other[i]) {
				return difference(a[i], other[i], at+"/"+strconv.Itoa(i))
			}
		}
	}
	return at
}

func (s *suite) definitionsPinnable(context.Context) (out []Result) {
	for _, t := range s.tools {
		if t.unpinnable != nil {
			out = append(out, fail(t.Name, "no plan can pin it: %s", t.unpinnable))
		}
	}
	return out
}

// schemasCompile compiles the schemas, for the cases that follow too.
func (s *suite) schemasCompile(context.Context) (out []Result) {
	for i := range s.tools {
		t := &s.tools[i]
		for _, f := range []struct {
			field string
			into  **schemas.Schema
		}{{"inputSchema", &t.input}, {"outputSchema", &t.output}} {
			raw := t.schema(f.field)
			if raw == nil {
				if f.field == "inputSchema" {
					out = append(out, fail(t.Name, `/inputSchema is missing: a tool without arguments has {"type": "object", "additionalProperties": false}`))
				}
				continue
			}
			at, err := compile(raw, f.into)
			if err != nil {
				out = append(out, fail(t.Name, "/%s%s: %s", f.field, at, err))
			}
		}
	}
	return out
}

// compile compiles a schema of the protocol. at is a JSON pointer to what is wrong in it.
func compile(raw json.RawMessage, into **schemas.Schema) (at string, err error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return "", err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return "", errors.New("it is not an object: the protocol takes no other schema")
	}
	schema, err := schemas.Compile(raw)
	var place *schemas.PlaceError
	var invalid *schemas.Invalid
	switch {
	case errors.As(err, &place):
		return place.Pointer, place.Err
	case errors.As(err, &invalid) && len(invalid.Causes) > 0:
		return invalid.Causes[0].Instance, errors.New(invalid.Causes[0].Message)
	case err != nil:
		return "", errors.Unwrap(err)
	}
	if kind, _ := m["type"].(string); kind != "object" {
		return "/type", errors.New(`it must be "object"`)
	}
	*into = schema
	return "", nil
}

// hintsComplete checks what a server says of effects. What it leaves out has the protocol's
// default, which is the worst; a reader cannot tell whether that is meant.
func (s *suite) hintsComplete(context.Context) (out []Result) {
	for _, t := range s.tools {
		if v, ok := t.fields["annotations"]; ok {
			if _, ok := v.(map[string]any); !ok {
				out = append(out, fail(t.Name, "/annotations is not an object"))
				continue
			}
		}
		reads, said := t.hint("readOnlyHint")
		want := []string{"readOnlyHint", "openWorldHint"}
		if said && !reads {
			want = append(want, "destructiveHint", "idempotentHint")
		}
		var missing []string
		for _, name := range want {
			if _, said := t.hint(name); !said {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			out = append(out, fail(t.Name, "/annotations: say true or false as %s", strings.Join(missing, ", ")))
		}
		if destroys, _ := t.hint("destructiveHint"); reads && destroys {
			out = append(out, fail(t.Name, "/annotations: readOnlyHint and destructiveHint are both true: correct one"))
		}
	}
	return out
}
