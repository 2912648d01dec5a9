package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Part is a part of a tool's definition.
type Part string

// The parts.
const (
	// IO has the schemas of arguments and results.
	IO Part = "io"
	// Effect has what the server says of the tool's effect, and how it is executed.
	Effect Part = "effect"
	// Prose has what people and models read.
	Prose Part = "prose"
	// Meta has everything else.
	Meta Part = "meta"
)

// Parts lists the parts, the gravest first.
func Parts() []Part { return []Part{IO, Effect, Prose, Meta} }

// partOf tells the part of a field of a definition.
func partOf(field string) Part {
	switch field {
	case "inputSchema", "outputSchema":
		return IO
	case "annotations", "execution":
		return Effect
	case "title", "description":
		return Prose
	default:
		return Meta
	}
}

// icons is the field that counts for nothing: its values are addresses of pictures.
const icons = "icons"

// Print is the fingerprint of a tool.
type Print struct {
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Digest is that of the whole definition, which plans pin: "sha256:" and 64 hex digits.
	Digest string `json:"digest"`
	// Parts has the digest of each part.
	Parts map[Part]string `json:"parts"`
}

// Tool returns the fingerprint of a tool, by its definition as the server sent it.
func Tool(definition json.RawMessage) (Print, error) {
	fields, err := read(definition)
	if err != nil {
		return Print{}, err
	}
	p := Print{Parts: map[Part]string{}}
	p.Tool, _ = fields["name"].(string)
	if p.Tool == "" {
		return Print{}, errors.New("the definition of a tool has no name")
	}
	if p.Digest, err = digest("mcp-tool/1", fields); err != nil {
		return Print{}, fmt.Errorf("the tool %.200q: %w", p.Tool, err)
	}
	for _, part := range Parts() {
		of := map[string]any{}
		for name, v := range fields {
			if partOf(name) == part {
				of[name] = v
			}
		}
		if p.Parts[part], err = digest("mcp-tool/1/"+string(part), of); err != nil {
			return Print{}, fmt.Errorf("the tool %.200q: %w", p.Tool, err)
		}
	}
	return p, nil
}

// Reworded reports whether two definitions are of one tool, and differ in their prose, and in nothing
// else.
func Reworded(was, is Print) bool {
	return was.Tool == is.Tool && was.Digest != is.Digest &&
		was.Parts[IO] == is.Parts[IO] && was.Parts[Effect] == is.Parts[Effect] && was.Parts[Meta] == is.Parts[Meta]
}

// read decodes a definition, without its icons.
func read(definition json.RawMessage) (map[string]any, error) {
	v, err := schemas.Decode(definition)
	if err != nil {
		return nil, fmt.Errorf("the definition of a tool: %w", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the definition of a tool is not an object")
	}
	delete(fields, icons)
	return fields, exact(fields, "")
}

// Canonical returns a value as RFC 8785 (JCS) writes it. Its numbers have to be ones of a double.
func Canonical(v any) (json.RawMessage, error) {
	raw, err := plan.Canonical(v)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(raw)
}

// digest is that of a value, as what it is.
func digest(what string, v any) (string, error) {
	raw, err := Canonical(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(what+"\x00"), raw...))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// exact returns an error if a value has a number that JCS would write as another one. path is
// where it stands, as a JSON pointer.
func exact(v any, path string) error {
	switch v := v.(type) {
	case json.Number:
		if !survives(string(v)) {
			return fmt.Errorf("the number %.40q at %.200s is not one of a double: it would count as another", string(v), path)
		}
	case []any:
		for i, e := range v {
			if err := exact(e, path+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := exact(v[k], path+"/"+escape(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// survives reports whether a double, written as ECMAScript does, has the value of a number, whose
// digits and exponent [schemas.Decode] has bounded.
func survives(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	want, ok := new(big.Rat).SetString(text)
	if !ok {
		return false
	}
	got, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && want.Cmp(got) == 0
}

// escape writes a name as a part of a JSON pointer (RFC 6901).
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
