package diag

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// record is the JSON form of a [Diagnostic]. Every key is always there; what is
// not known is "" or 0. Lines and columns count from 1, columns in characters,
// and the end is that of a half-open range. witness is a JSON text.
type record struct {
	Code       Code     `json:"code"`
	Severity   Severity `json:"severity"`
	Summary    string   `json:"summary"`
	Detail     string   `json:"detail"`
	File       string   `json:"file"`
	Line       int      `json:"line"`
	Column     int      `json:"column"`
	EndLine    int      `json:"end_line"`
	EndColumn  int      `json:"end_column"`
	Node       string   `json:"node"`
	Edge       string   `json:"edge"`
	Witness    string   `json:"witness"`
	Suggestion string   `json:"suggestion"`

	Edits         []editRecord  `json:"edits"`
	Applicability Applicability `json:"applicability"`
}

// editRecord is the JSON form of an [Edit].
type editRecord struct {
	Range       rangeRecord `json:"range"`
	Replacement string      `json:"replacement"`
}

// rangeRecord is the JSON form of a [Range], with lines and columns as in [record].
type rangeRecord struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndLine   int    `json:"end_line"`
	EndColumn int    `json:"end_column"`
}

// MarshalJSON writes the findings as an array of objects with the keys code,
// severity, summary, detail, file, line, column, end_line, end_column, node,
// edge, witness, suggestion, edits and applicability; no findings are [], and so
// are no edits. An edit has a range, with the keys file, line, column, end_line and
// end_column, and a replacement. Characters that a terminal might act on are
// written as JSON escapes.
func (ds Diagnostics) MarshalJSON() ([]byte, error) {
	records := make([]record, len(ds))
	for i, d := range ds {
		records[i] = record{
			Code: d.Code, Severity: d.Severity, Summary: d.Summary, Detail: d.Detail,
			File: d.Subject.File, Line: d.Subject.Start.Line, Column: d.Subject.Start.Column,
			EndLine: d.Subject.End.Line, EndColumn: d.Subject.End.Column,
			Node: d.Node, Edge: d.Edge, Witness: d.Witness, Suggestion: d.Suggestion,
			Edits: make([]editRecord, len(d.Edits)), Applicability: d.Applicability,
		}
		for j, e := range d.Edits {
			records[i].Edits[j] = editRecord{
				Range: rangeRecord{
					File: e.Range.File, Line: e.Range.Start.Line, Column: e.Range.Start.Column,
					EndLine: e.Range.End.Line, EndColumn: e.Range.End.Column,
				},
				Replacement: e.Replacement,
			}
		}
	}
	b, err := json.Marshal(records)
	if err != nil {
		return nil, fmt.Errorf("write diagnostics as JSON: %w", err)
	}
	if printable(string(b)) {
		return b, nil
	}
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String()), nil
}
