package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// An input as tools take them, and a large list of records.
const (
	toolSchema = `{"type":"object","properties":{"path":{"type":"string","minLength":1},"head":{"type":"integer","minimum":1},
		"tail":{"type":"integer","minimum":1},"mode":{"enum":["text","binary"]}},"required":["path"],"additionalProperties":false}`
	toolValue    = `{"path":"docs/write-a-plan.md","head":100,"mode":"text"}`
	recordSchema = `{"type":"array","items":{"$ref":"#/defs/Record"},"defs":{"Record":{"type":"object",
		"properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":100},"tags":{"type":"array","items":{"type":"string"}}},"required":["id","name"]}}}`
)

var recordValue = `[` + strings.Repeat(`{"id":12345,"name":"a name","tags":["a","b"]},`, 999) + `{"id":1,"name":"x"}]`

func BenchmarkValidate(b *testing.B) {
	for _, bb := range []struct{ name, schema, value string }{
		{"tool", toolSchema, toolValue}, {"records", recordSchema, recordValue}, {"invalid", toolSchema, `{"path":"","more":1}`},
	} {
		s := mustCompile(b, bb.schema)
		bare, err := jsonschema.CompileString("schema.json", bb.schema)
		require.NoError(b, err)
		v, err := schemas.Decode([]byte(bb.value))
		require.NoError(b, err)
		b.Run(bb.name+"/guarded", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = s.Validate(v)
			}
		})
		b.Run(bb.name+"/bare", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = bare.Validate(v)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, value := range map[string]string{"tool": toolValue, "records": recordValue} {
		b.Run(name+"/guarded", func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if _, err := schemas.Decode([]byte(value)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding", func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				var v any
				dec := json.NewDecoder(strings.NewReader(value))
				dec.UseNumber()
				if err := dec.Decode(&v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.Run("guarded", func(b *testing.B) {
		for b.Loop() {
			if _, err := schemas.Compile([]byte(toolSchema)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if _, err := jsonschema.CompileString("schema.json", toolSchema); err != nil {
				b.Fatal(err)
			}
		}
	})
}
