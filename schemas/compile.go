package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/internal/excerpt"
)

// DefaultDraft is the draft of a schema without $schema.
const DefaultDraft = "https://json-schema.org/draft/2020-12/schema"

// base is the URI of a document that has none of its own. Nothing is loaded from it.
const base = "chimera:///schema"

var drafts = []string{
	DefaultDraft,
	"https://json-schema.org/draft/2019-09/schema",
	"https://json-schema.org/draft-07/schema",
	"https://json-schema.org/draft-06/schema",
	"https://json-schema.org/draft-04/schema",
}

// Maps that turn the library's assertions about format and content into
// annotations: a nil entry takes precedence over the library's own.
var (
	noFormats    = nils(jsonschema.Formats)
	noDecoders   = nils(jsonschema.Decoders)
	noMediaTypes = nils(jsonschema.MediaTypes)
)

func nils[F any](own map[string]F) map[string]F {
	var none F
	m := make(map[string]F, len(own))
	for name := range own {
		m[name] = none
	}
	return m
}

// Schema is a compiled JSON Schema. It does not change and is safe for
// concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	// graph bounds validations. It is nil if made computes it at the first
	// validation.
	graph *graph
	made  *made
	// anchors are the schemas that dynamic references can lead to and that no exported
	// field leads to.
	anchors []*jsonschema.Schema
	// text is the length of the schema's text, and patterns the size of the
	// programs of its patterns.
	text, patterns int
}

// Memory estimates the memory, in bytes, that a schema from [Compile] holds once it is
// in use. The estimate comes from measurements, and is rather too large than too small.
func (s *Schema) Memory() int { return 1600 + 25*s.text + 80*s.patterns }

// Compile compiles a JSON Schema of draft 4, 6, 7, 2019-09 or 2020-12, the last if it
// has no $schema. Its errors are deterministic. An error about a bound is [ErrTooLarge],
// one about the text is a [*SyntaxError], one about a part of the schema a
// [*PlaceError], and one about a reference a [*ReferenceError]; if the schema breaks the
// rules of its draft, the error wraps an [*Invalid]. [errors.Unwrap] returns the error
// without the operation.
func Compile(raw []byte) (*Schema, error) {
	s, err := compile(raw, nil)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return s, nil
}

// compile compiles raw. known holds other documents that it may refer to, by URI.
func compile(raw []byte, known map[string][]byte) (s *Schema, err error) {
	defer func() {
		// The library panics on some schemas that its meta-schemas accept.
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the schema cannot be compiled: %s", excerpt.Clip(fmt.Sprint(r), 200))
		}
	}()
	if len(raw) > MaxSchemaBytes {
		return nil, tooLarge("%d bytes, more than %d", len(raw), MaxSchemaBytes)
	}
	root, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	if s := Plain(root); s != nil {
		s.text = len(raw)
		return s, nil
	}
	return library(raw, root, known)
}

// library compiles a schema, given as text and as value, with the library.
func library(raw []byte, root any, known map[string][]byte) (*Schema, error) {
	found, err := scanSchema(root)
	if err != nil {
		return nil, err
	}
	c := &jsonschema.Compiler{}
	*c = *jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.Formats, c.Decoders, c.MediaTypes = noFormats, noDecoders, noMediaTypes
	denied := false
	c.LoadURL = func(string) (io.ReadCloser, error) {
		denied = true
		return nil, errors.New("nothing is ever loaded")
	}
	written := map[string]string{}
	for _, r := range found.rewrites {
		r.schema["pattern"] = r.translate
		written[r.pointer] = r.pattern
	}
	if len(written) > 0 {
		if raw, err = json.Marshal(root); err != nil {
			return nil, err
		}
	}
	if err := c.AddResource(base, bytes.NewReader(inject(raw, root))); err != nil {
		return nil, err
	}
	for _, address := range slices.Sorted(maps.Keys(known)) {
		root, err := Decode(known[address])
		if err != nil {
			return nil, err
		}
		if err := c.AddResource(address, bytes.NewReader(inject(known[address], root))); err != nil {
			return nil, err
		}
	}
	compiled, err := c.Compile(base)
	if err != nil {
		return nil, explain(err, root, found, denied)
	}
	roots := []*jsonschema.Schema{compiled}
	if found.dynamic {
		// A $dynamicRef reaches schemas that no exported field leads to.
		for _, pointer := range found.anchors {
			if s, err := c.Compile(base + "#" + fragment(pointer)); err == nil {
				roots = append(roots, s)
			}
		}
		if len(known) == 0 {
			if err := settle(roots, found); err != nil {
				return nil, err
			}
		}
	}
	g, err := newGraph(roots, known, written)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled: compiled, graph: g, anchors: roots[1:], text: len(raw), patterns: found.patterns}, nil
}

// inject returns the text of the schema with its draft. Without $schema the
// library assumes that every vocabulary is active, including format assertion.
func inject(raw []byte, root any) []byte {
	m, ok := root.(map[string]any)
	if !ok {
		return raw
	}
	if _, ok := m["$schema"]; ok {
		return raw
	}
	rest := raw[bytes.IndexByte(raw, '{')+1:]
	out := make([]byte, 0, len(raw)+len(DefaultDraft)+16)
	out = append(out, `{"$schema":"`+DefaultDraft+`"`...)
	if len(m) > 0 {
		out = append(out, ',')
	}
	return append(out, rest...)
}

// explain makes an error of the library deterministic. The library ranges over maps, so
// which of several problems it finds first varies.
func explain(err error, root any, found *scan, denied bool) error {
	var ve *jsonschema.ValidationError
	var loop jsonschema.InfiniteLoopError
	switch {
	case denied && len(found.external) > 0:
		return externalError(found.external)
	case errors.As(err, &ve):
		return flatten(ve, nil, nil, root)
	case errors.As(err, &loop):
		return errors.New("a schema refers to itself without going into the value")
	}
	return errors.New("an identifier, anchor or reference in the schema does not resolve")
}

// Compiled returns the library's schema, for provers that reason about what is checked
// at run time. It must not be modified. Its Format and Content
// fields are annotations here, whatever the draft.
func (s *Schema) Compiled() *jsonschema.Schema { return s.compiled }
