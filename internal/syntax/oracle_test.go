package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"chimera.ai/engine/diag"
)

// This file holds what tests compare Parse with: two other readers, and a
// check of positions that is slow and simple.

// agrees compares documents with what yaml.v4 reads from the same text.
func agrees(docs []*Document, src []byte) error {
	loader, err := yaml.NewLoader(bytes.NewReader(src))
	if err != nil {
		return fmt.Errorf("the other reader refuses the file: %w", err)
	}
	for i := 0; ; i++ {
		var node yaml.Node
		err := loader.Load(&node)
		if errors.Is(err, io.EOF) {
			if i != len(docs) {
				return fmt.Errorf("%d documents, yaml has %d", len(docs), i)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("the other reader refuses the file: %w", err)
		}
		if i >= len(docs) {
			return fmt.Errorf("%d documents, yaml has more", len(docs))
		}
		root := &node
		if node.Kind == yaml.DocumentNode {
			if len(node.Content) == 0 {
				root = &yaml.Node{Kind: yaml.ScalarNode}
			} else {
				root = node.Content[0]
			}
		}
		if err := same(docs[i].Root, root); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
}

// same compares a value with a node.
func same(v *Value, n *yaml.Node) error {
	at := fmt.Sprintf("%d:%d", v.Range().Start.Line, v.Range().Start.Column)
	switch n.Kind {
	case yaml.AliasNode:
		if v.target == nil {
			return fmt.Errorf("%s: not an alias", at)
		}
		return same(v, n.Alias)
	case yaml.ScalarNode:
		quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
		kind, text := String, n.Value
		if !quoted {
			kind, text, _ = resolve(n.Value)
		}
		if v.Kind != kind || v.Text != text {
			return fmt.Errorf("%s: %s %q, yaml has %s %q", at, v.Kind, v.Text, kind, text)
		}
		if quoted == v.Plain() && v.written().style != unwritten {
			return fmt.Errorf("%s: plain is %t", at, v.Plain())
		}
	case yaml.SequenceNode:
		if v.Kind != List || len(v.Items) != len(n.Content) {
			return fmt.Errorf("%s: %s of %d, yaml has a list of %d", at, v.Kind, len(v.Items), len(n.Content))
		}
		for i, item := range v.Items {
			if err := same(item, n.Content[i]); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		if v.Kind != Map || len(v.Fields)*2 != len(n.Content) {
			return fmt.Errorf("%s: %s of %d, yaml has a map of %d", at, v.Kind, len(v.Fields), len(n.Content)/2)
		}
		for i, f := range v.Fields {
			if f.Key.Text != n.Content[2*i].Value {
				return fmt.Errorf("%s: key %q, yaml has %q", at, f.Key.Text, n.Content[2*i].Value)
			}
			if err := same(f.Value, n.Content[2*i+1]); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%s: yaml has a node of kind %v", at, n.Kind)
	}
	return nil
}

// agreesJSON compares a document with what encoding/json reads from the text.
func agreesJSON(doc *Document, src []byte) error {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil {
		return fmt.Errorf("the other reader refuses the file: %w", err)
	}
	a, err := json.Marshal(exact(doc.Root.Any()))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	b, err := json.Marshal(exact(want))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("%s, JSON has %s", a, b)
	}
	return nil
}

// exact makes numbers comparable: "1e5" and "1E+05" are one number.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return r.RatString()
		}
		return v
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

// positions checks the ranges of v and of all that it holds.
func positions(v *Value, src []byte) error {
	if err := inside(v.Range(), src); err != nil {
		return fmt.Errorf("%s: %w", v.Kind, err)
	}
	start, end := v.Range().Start.Byte, v.Range().End.Byte
	token := string(src[start:end])
	if v.target == nil {
		switch v.style {
		case plain:
			if !strings.Contains(token, "\n") && v.Kind == String && token != v.Text {
				return fmt.Errorf("token %q of text %q", token, v.Text)
			}
		case single, double:
			if len(token) < 2 || token[0] != token[len(token)-1] || token[0] != '"' && token[0] != '\'' {
				return fmt.Errorf("token %q of a quoted text", token)
			}
		case literal, folded:
			if token[0] != '|' && token[0] != '>' {
				return fmt.Errorf("token %q of a block scalar", token)
			}
		case unwritten:
			if v.Kind == Null && token != "" {
				return fmt.Errorf("token %q of an absent value", token)
			}
		}
		last := start
		children := v.Items
		for _, f := range v.Fields {
			children = append(children, f.Key, f.Value)
		}
		for _, c := range children {
			if c.Range().Start.Byte < last || c.Range().End.Byte > end {
				return fmt.Errorf("%s at %d-%d stands outside of [%d,%d)", c.Kind, c.Range().Start.Byte, c.Range().End.Byte, last, end)
			}
			last = c.Range().End.Byte
			if err := positions(c, src); err != nil {
				return err
			}
		}
	}
	if v.Kind == String && len(v.Text) < 2000 {
		return offsets(v, src)
	}
	return nil
}

// offsets checks At.
func offsets(v *Value, src []byte) error {
	w := v.written()
	last := w.Range().Start
	for i := range len(v.Text) + 1 {
		pos := v.At(i)
		if err := inside(diag.Range{Start: last, End: pos}, src); err != nil {
			return fmt.Errorf("At(%d) of %q: %w", i, v.Text, err)
		}
		if pos.Byte > w.Range().End.Byte {
			return fmt.Errorf("At(%d) of %q is behind the token", i, v.Text)
		}
		// A letter stands for itself in every style but in an escape.
		if i < len(v.Text) && v.Text[i] >= 'A' && v.Text[i] <= 'z' && v.Text[i] != '\\' &&
			src[pos.Byte] != v.Text[i] && src[pos.Byte] != '\\' {
			return fmt.Errorf("At(%d) of %q is at %q", i, v.Text, src[pos.Byte])
		}
		last = pos
	}
	return nil
}

// inside checks that a range is ordered, in the file, and counted right.
func inside(r diag.Range, src []byte) error {
	if r.Start.Byte > r.End.Byte || r.End.Byte > len(src) || r.Start.Byte < 0 {
		return fmt.Errorf("range %d-%d in a file of %d bytes", r.Start.Byte, r.End.Byte, len(src))
	}
	for _, p := range []diag.Pos{r.Start, r.End} {
		before := bytes.TrimPrefix(src[:p.Byte], []byte(bom))
		line := bytes.Count(before, []byte("\n")) + 1
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
		if p.Line != line || p.Column != column {
			return fmt.Errorf("byte %d is said to be at %d:%d and is at %d:%d", p.Byte, p.Line, p.Column, line, column)
		}
	}
	return nil
}
