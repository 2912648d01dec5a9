// Package pool keeps the JSON Schemas of one file: one for each text, with its
// ports, compiled once and within what a file may take.
package pool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// maxPooledBytes bounds the canonical bytes of all different schemas of a file,
// each with the definitions that it uses.
const maxPooledBytes = 32 << 20

// Schema is one self-contained JSON Schema, shared by all who write the same.
type Schema struct {
	// Raw is its canonical text. The value is not kept: a large plan has many.
	Raw    json.RawMessage
	Digest string
	// definitions is how many of the plan's it carries.
	definitions int

	// ports and shape are worked out by prepare.
	ports *PortSet
	shape *shape

	// tried: it was compiled; compiled is nil where that failed and fault says why.
	tried    bool
	compiled *schemas.Schema
	fault    error
}

// Pool keeps one schema for each digest.
type Pool struct {
	all   map[string]*Schema
	bytes int
	// dear is the work of compiling schemas that are not plain.
	dear int
}

// maxDear bounds the work of compiling the schemas of a file that are not plain,
// in bytes of their text: a byte takes up to a microsecond, and the longer, the
// more definitions there are that a reference is looked for in.
const maxDear = 8 << 20

// Admit reports whether a schema is still to be compiled, and sees to it that this
// is within what a file may take.
func (p *Pool) Admit(s *Schema) bool {
	const few = 8
	if s.Prepare(); s.tried {
		return false
	}
	if p.dear += len(s.Raw) * (1 + s.definitions/few); p.dear > maxDear {
		s.tried = true
		s.fault = fmt.Errorf("the schemas of this file that need more than the plain keywords take more than %d MiB, each with the definitions that it uses, and the more of them the dearer", maxDear>>20)
	}
	return !s.tried
}

// Add gives the pooled schema of a decoded value.
func (p *Pool) Add(value any) (*Schema, error) { return p.With(value, 0) }

// With is add for a schema that carries that many definitions. Compiling takes
// the more time for each byte, the longer the chains of references can be, so
// the bytes of such a schema count for more.
func (p *Pool) With(value any, definitions int) (*Schema, error) {
	raw, err := plan.Canonical(value)
	if err != nil {
		return nil, err
	}
	digest := plan.DigestOf(raw)
	if s, ok := p.all[digest]; ok {
		return s, nil
	}
	const cheap = 64
	if p.bytes += len(raw) * (1 + definitions/cheap); p.bytes > maxPooledBytes {
		return nil, fmt.Errorf("the schemas of this file, each with the definitions that it uses, take more than %d MiB", maxPooledBytes>>20)
	}
	if p.all == nil {
		p.all = map[string]*Schema{}
	}
	s := &Schema{Raw: bytes.Clone(raw), Digest: digest, definitions: definitions}
	p.all[digest] = s
	return s, nil
}

// Decoded gives the value of the schema, which is the caller's. It is nil where
// the text is beyond the bounds of any schema.
func (s *Schema) Decoded() any {
	v, err := schemas.Decode(s.Raw)
	if err != nil {
		return nil
	}
	return v
}

// Prepare works out, once, what is asked of every schema, and compiles a plain one.
func (s *Schema) Prepare() {
	if s.ports != nil {
		return
	}
	value, err := schemas.Decode(s.Raw)
	if err != nil {
		s.ports = &PortSet{Partial: true}
		return
	}
	s.ports, s.shape = portsIn(value), shapeOf(value)
	if s.tried || len(s.Raw) > schemas.MaxSchemaBytes {
		return
	}
	if plain := schemas.Plain(value); plain != nil {
		s.tried, s.compiled = true, plain
	}
}

// Compile compiles the schema once.
func (s *Schema) Compile() (*schemas.Schema, error) {
	if !s.tried {
		s.tried = true
		compiled, err := schemas.Compile(s.Raw)
		s.compiled, s.fault = compiled, errors.Unwrap(err) // where it stands says what was being done
	}
	return s.compiled, s.fault
}
