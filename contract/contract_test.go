package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/schemas"
)

// constants gives the values of the constants of a type, as the package's
// source declares them.
func constants(t *testing.T, typ string) []string {
	files := token.NewFileSet()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var values []string
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, entry.Name(), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != typ {
				return true
			}
			for i := range spec.Names {
				literal, ok := spec.Values[i].(*ast.BasicLit)
				require.True(t, ok, "%s is not a literal", spec.Names[i])
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				values = append(values, value)
			}
			return true
		})
	}
	require.NotEmpty(t, values)
	return values
}

func TestKindsAreAllKinds(t *testing.T) {
	var kinds []string
	for _, k := range contract.Kinds() {
		kinds = append(kinds, string(k))
		require.True(t, k.Valid(), k)
	}
	require.Empty(t, cmp.Diff(constants(t, "Kind"), kinds))
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(kinds))), len(kinds), "a kind is there twice")
}

func TestValid(t *testing.T) {
	for _, k := range []contract.Kind{"", "Timeout", "timeout ", "oops"} {
		require.False(t, k.Valid(), k)
	}
}

// TestKindsCannotBeChanged: each caller has its own list.
func TestKindsCannotBeChanged(t *testing.T) {
	contract.Kinds()[0] = "oops"
	require.False(t, contract.Kind("oops").Valid())
}

// schema gives the embedded schema of error payloads.
func schema(t *testing.T) []byte {
	raw, ok := schemas.Named("error.json")
	if !ok {
		raw, ok = schemas.Named("error")
	}
	require.True(t, ok, "%v", schemas.Names())
	return raw
}

func TestErrorSchemaNamesTheKinds(t *testing.T) {
	var s struct {
		Properties map[string]struct {
			Enum []contract.Kind `json:"enum"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(schema(t), &s))
	require.Empty(t, cmp.Diff(contract.Kinds(), s.Properties["kind"].Enum))
}

// TestErrorPayloadFitsItsSchema: what error edges carry is what their
// expressions are typed by.
func TestErrorPayloadFitsItsSchema(t *testing.T) {
	s, err := schemas.Compile(schema(t))
	require.NoError(t, err)
	for _, p := range []contract.ErrorPayload{
		{Kind: contract.Timeout, Node: "n"},
		{Kind: contract.ToolError, Message: "no", Node: "n", Attempts: 3, Details: json.RawMessage(`{"exit_code":1}`)},
	} {
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		_, err = s.ValidateJSON(raw)
		require.NoError(t, err, "%s", raw)
	}
	_, err = s.ValidateJSON([]byte(`{"kind":"oops","message":"","node":"","attempts":1,"details":null}`))
	require.Error(t, err)
}

func TestErrorf(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    *contract.Error
		says   string
		causes []error
	}{
		{"without a cause", contract.Errorf(contract.Unsent, "dial %s", "x"), "dial x", nil},
		{"with one", contract.Errorf(contract.Transport, "read: %w", fs.ErrClosed), "read: file already closed", []error{fs.ErrClosed}},
		{"shown, not wrapped", contract.Errorf(contract.Transport, "read: %v", fs.ErrClosed), "read: file already closed", nil},
		{"with two", contract.Errorf(contract.Transport, "%w, then %w", fs.ErrClosed, fs.ErrExist), "file already closed, then file already exists", []error{fs.ErrClosed, fs.ErrExist}},
		{"with one inside", contract.Errorf(contract.Transport, "a: %w", fmt.Errorf("b: %w", fs.ErrClosed)), "a: b: file already closed", []error{fs.ErrClosed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.says, c.err.Message)
			require.Equal(t, string(c.err.Kind)+": "+c.says, c.err.Error())
			require.Equal(t, len(c.causes) > 0, c.err.Cause != nil)
			for _, cause := range c.causes {
				require.ErrorIs(t, c.err, cause)
			}
			require.NotErrorIs(t, c.err, fs.ErrInvalid)
		})
	}
}

// TestTheOuterKindCounts: a wrapped failure keeps its kind until somebody who
// knows better gives it another.
func TestTheOuterKindCounts(t *testing.T) {
	inner := contract.Errorf(contract.Unsent, "dial")
	var e *contract.Error
	require.True(t, errors.As(fmt.Errorf("call: %w", inner), &e))
	require.Same(t, inner, e)
	require.True(t, errors.As(contract.Errorf(contract.Timeout, "call: %w", inner), &e))
	require.Equal(t, contract.Timeout, e.Kind)
	require.ErrorIs(t, e, inner)
}
