// Package pool holds the JSON Schemas of one file, one for each text. Each is
// compiled once, and its ports are worked out once, within the bounds of a file.
package pool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// maxPooledBytes bounds the canonical bytes of all distinct schemas of a file, each
// with the definitions that it uses.
const maxPooledBytes = 32 << 20

// Schema is one self-contained JSON Schema, shared by all places that state it.
type Schema struct {
	// Raw is its canonical text. The decoded value is not kept, since a large
	// plan has many.
	Raw    json.RawMessage
	Digest string
	// definitions is the number of the plan's definitions it includes.
	definitions int

	// ports and shape are set by Prepare.
	ports *PortSet
	shape *shape

	// tried reports that it was compiled; if that failed, compiled is nil and
	// fault says why.
	tried    bool
	compiled *schemas.Schema
	fault    error
}

// Pool holds one schema for each digest. The zero value is empty.
type Pool struct {
	all   map[string]*Schema
	bytes int
	// dear is the work of compiling schemas that are not plain, in the unit of
	// maxDear.
	dear int
}

// maxDear bounds the work of compiling the schemas of a file that are not plain, in
// bytes of their text, weighted by their definitions, which each reference
// searches. A byte takes up to a microsecond.
const maxDear = 8 << 20

// Admit reports whether a schema remains to be compiled, and makes compiling fail
// once the file has used up its work.
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

// Add returns the pooled schema for a decoded value.
func (p *Pool) Add(value any) (*Schema, error) { return p.With(value, 0) }

// Compiled returns the compiled schema for a decoded value, or nil if it does not
// compile or the file has too many schemas.
func (p *Pool) Compiled(value any) *schemas.Schema {
	s, err := p.Add(value)
	if err != nil {
		return nil
	}
	p.Admit(s)
	return s.Usable()
}

// With is Add for a schema that includes so many definitions. Longer chains of
// references take more time for each byte, so the bytes of such a schema count for
// more.
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

// Decoded returns a fresh value of the schema, or nil if its text exceeds the
// bounds of any schema.
func (s *Schema) Decoded() any {
	v, err := schemas.Decode(s.Raw)
	if err != nil {
		return nil
	}
	return v
}

// Prepare works out the ports and the shape, once, and compiles a plain schema.
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

// Usable returns the compiled schema, or nil if s is nil or does not compile.
func (s *Schema) Usable() *schemas.Schema {
	if s == nil {
		return nil
	}
	compiled, err := s.Compile()
	if err != nil {
		return nil
	}
	return compiled
}

// Compile returns the compiled schema. It compiles once.
func (s *Schema) Compile() (*schemas.Schema, error) {
	if !s.tried {
		s.tried = true
		compiled, err := schemas.Compile(s.Raw)
		s.compiled, s.fault = compiled, errors.Unwrap(err) // where it stands says what was being done
	}
	return s.compiled, s.fault
}
