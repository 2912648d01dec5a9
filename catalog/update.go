package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// Update returns a catalog file in which templates of imported tools and resources are as entries say, and of
// which everything else stays as it is, comments too. In the place of a template with facts that
// differ from those in [Entry.Was] only the fields are written that do; a template that is not there
// goes behind the last one.
//
// An error is a file that has to be changed by hand. Whoever writes the result reads it again first,
// and compares: YAML can be written in more ways than are looked at here.
func Update(existing []byte, entries []Entry) ([]byte, error) {
	docs, found := syntax.Parse("", existing, fields.Limits)
	if len(found) > 0 || len(docs) != 1 {
		return nil, errors.New("it is not one YAML document")
	}
	list := docs[0].Root.Get("templates")
	if list == nil || list.Kind != syntax.List && list.Kind != syntax.Null {
		return nil, errors.New("it has no list of templates")
	}
	u := updater{text: existing, end: "\n", pad: "  "}
	if bytes.Contains(existing, []byte("\r\n")) {
		u.end = "\r\n"
	}
	if len(list.Items) > 0 {
		start := list.Range().Start
		if existing[start.Byte] != '-' {
			return nil, errors.New("its templates stand in brackets")
		}
		u.pad = strings.Repeat(" ", start.Column-1)
	}
	there := map[string]*syntax.Value{}
	for _, item := range list.Items {
		if provider, operation := item.Get("provider_name"), item.Get("operation"); provider != nil && operation != nil {
			there[OperationName(provider.Text, operation.Text)] = item
		}
	}
	var more writer
	for i := range entries {
		e := &entries[i]
		var err error
		if item := there[e.Operation]; item == nil {
			err = e.write(&more, u.pad)
		} else {
			err = u.change(item, e)
		}
		if err != nil {
			return nil, fmt.Errorf("the template %s: %w", e.Operation, err)
		}
	}
	switch text := more.String(); {
	case text == "":
	case len(list.Items) > 0:
		u.below(list.Items[len(list.Items)-1].Range().End.Byte, text)
	default:
		r := list.Range()
		u.put(r.Start.Byte, r.End.Byte, "\n"+strings.TrimSuffix(text, "\n"))
	}
	return u.apply(), nil
}

// updater collects edits of a file.
type updater struct {
	text []byte
	// end ends a line, and pad stands before the dash of a template.
	end, pad string
	edits    []edit
}

// edit replaces the bytes between two offsets.
type edit struct {
	from, to int
	text     string
}

func (u *updater) put(from, to int, text string) {
	u.edits = append(u.edits, edit{from, to, strings.ReplaceAll(text, "\n", u.end)})
}

// below puts lines below the one in which something ends.
func (u *updater) below(offset int, lines string) {
	if offset > 0 && u.text[offset-1] == '\n' {
		u.put(offset, offset, lines)
	} else if n := bytes.IndexByte(u.text[offset:], '\n'); n >= 0 {
		u.put(offset+n+1, offset+n+1, lines)
	} else {
		u.put(len(u.text), len(u.text), "\n"+lines)
	}
}

// apply makes the edits. Those at one offset keep their order.
func (u *updater) apply() []byte {
	slices.SortStableFunc(u.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out []byte
	at := 0
	for _, e := range u.edits {
		out = append(append(out, u.text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, u.text[at:]...)
}

// change makes a template that is there as an entry says.
func (u *updater) change(item *syntax.Value, e *Entry) error {
	start := item.Range().Start
	line := bytes.LastIndexByte(u.text[:start.Byte], '\n') + 1
	if item.Kind != syntax.Map || u.text[start.Byte] == '{' || strings.Trim(string(u.text[line:start.Byte]), " ") != "-" {
		return errors.New("it does not stand in lines of its own, which begin behind the dash")
	}
	was, err := e.fields(e.Was)
	if err != nil {
		return err
	}
	is, err := e.fields(e.Facts)
	if err != nil {
		return err
	}
	for _, name := range []string{"status", "definition", "fingerprint"} {
		was[name] = item.Get(name).Any()
	}
	if e.Definition != nil { // it has the fingerprint
		is["fingerprint"] = was["fingerprint"]
	}
	indent := strings.Repeat(" ", start.Column-1)
	for _, f := range TemplateFields.Fields {
		v, has := is[f.Name]
		if reflect.DeepEqual(was[f.Name], v) {
			continue
		}
		i := slices.IndexFunc(item.Fields, func(x syntax.Field) bool { return x.Key.Text == f.Name })
		if !has {
			if f.Name != "fingerprint" || i <= 0 {
				return fmt.Errorf("its field %s would have to go", f.Name)
			}
			u.drop(item.Fields[i])
			continue
		}
		var w writer
		w.value(v, indent)
		if i >= 0 {
			u.replace(item.Fields[i], w.String())
		} else {
			u.below(item.Fields[u.before(item)].Value.Range().End.Byte, indent+f.Name+":"+w.String())
		}
	}
	if comment := u.unsaid(line, e.Comment); comment != "" {
		u.put(line, line, comment)
	}
	return nil
}

// before is the index of the field behind which new ones go: they stand before the definition,
// which is long, where that is not the first.
func (u *updater) before(item *syntax.Value) int {
	i := slices.IndexFunc(item.Fields, func(x syntax.Field) bool { return x.Key.Text == "definition" })
	if i > 0 {
		return i - 1
	}
	return len(item.Fields) - 1
}

// drop takes the line of a field away, which is not the first.
func (u *updater) drop(f syntax.Field) {
	from := bytes.LastIndexByte(u.text[:f.Key.Range().Start.Byte], '\n') + 1
	to := len(u.text)
	if n := bytes.IndexByte(u.text[f.Value.Range().End.Byte:], '\n'); n >= 0 {
		to = f.Value.Range().End.Byte + n + 1
	}
	u.put(from, to, "")
}

// replace gives a field another value, text as [writer.value] writes it. A comment behind the key or
// behind the value stays.
func (u *updater) replace(f syntax.Field, text string) {
	from, to := f.Key.Range().End.Byte, f.Value.Range().End.Byte
	from += bytes.IndexByte(u.text[from:], ':') + 1
	if n := bytes.IndexByte(u.text[from:to], '\n'); n >= 0 && strings.HasPrefix(text, "\n") {
		from += n
		if u.text[from-1] == '\r' {
			from--
		}
	}
	if u.text[to-1] != '\n' {
		text = strings.TrimSuffix(text, "\n")
	}
	u.put(from, to, text)
}

// unsaid are the lines of a comment that do not stand above a line already.
func (u *updater) unsaid(line int, comment string) string {
	var above []string
	for line > 0 {
		from := bytes.LastIndexByte(u.text[:line-1], '\n') + 1
		s := strings.TrimSpace(string(u.text[from:line]))
		if !strings.HasPrefix(s, "#") {
			break
		}
		above, line = append(above, s), from
	}
	var b strings.Builder
	for s := range strings.Lines(comment) {
		if s = "# " + strings.TrimRight(s, "\n"); !slices.Contains(above, strings.TrimSpace(s)) {
			b.WriteString(u.pad + s + "\n")
		}
	}
	return b.String()
}
