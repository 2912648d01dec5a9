package fit

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/plan"
)

// Limits bound what [ReadCSV] reads. What is 0 has the value of [DefaultLimits].
type Limits struct {
	Bytes   int64
	Rows    int
	Columns int
	// Cell bounds each cell, in bytes.
	Cell int
}

// DefaultLimits are those of a table in memory.
var DefaultLimits = Limits{Bytes: 16 << 20, Rows: 200_000, Columns: 256, Cell: 1024}

// Data is a table. Each row has a cell for each column; a cell that is "" is missing.
type Data struct {
	Columns []string
	Rows    [][]string
	// lines holds where each row begins in a file, from 1.
	lines []int
}

// DataError reports a place in a table that cannot be used.
type DataError struct {
	// Line and Column count from 1 in the file; Column is a byte of a line that is not CSV, and else a cell.
	// Both are 0 where there is no place.
	Line, Column int
	Message      string
}

func (e *DataError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// ReadCSV reads a table in CSV (RFC 4180, UTF-8), whose first row has the names of the columns. Its errors are
// [*DataError], or those of the reader. Empty lines are no rows.
func ReadCSV(r io.Reader, limits Limits) (*Data, error) {
	limits = limits.orDefault()
	raw, err := io.ReadAll(io.LimitReader(r, limits.Bytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	if int64(len(raw)) > limits.Bytes {
		return nil, &DataError{Message: fmt.Sprintf("the table has more than %d bytes", limits.Bytes)}
	}
	c := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	d := &Data{}
	for {
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, misread(err)
		}
		if err := check(c, record, limits); err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		switch {
		case d.Columns == nil:
			if err := header(c, record); err != nil {
				return nil, err
			}
			d.Columns = record
		case len(d.Rows) == limits.Rows:
			return nil, &DataError{line, 1, fmt.Sprintf("the table has more than %d rows", limits.Rows)}
		default:
			d.Rows, d.lines = append(d.Rows, record), append(d.lines, line)
		}
	}
	if d.Columns == nil {
		return nil, &DataError{1, 1, "the table has no row with the names of its columns"}
	}
	return d, nil
}

func (l Limits) orDefault() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultLimits.Bytes
	}
	if l.Rows <= 0 {
		l.Rows = DefaultLimits.Rows
	}
	if l.Columns <= 0 {
		l.Columns = DefaultLimits.Columns
	}
	if l.Cell <= 0 {
		l.Cell = DefaultLimits.Cell
	}
	return l
}

// misread says in our words what is wrong with a row, and where.
func misread(err error) error {
	var p *csv.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("read the table: %w", err)
	}
	message := "the line is not CSV: a quote is missing, or is where none may be"
	if errors.Is(p.Err, csv.ErrFieldCount) {
		message = "the row has another number of cells than the first"
	}
	return &DataError{p.Line, p.Column, message}
}

func check(c *csv.Reader, record []string, limits Limits) error {
	if len(record) > limits.Columns {
		line, _ := c.FieldPos(limits.Columns)
		return &DataError{line, limits.Columns + 1, fmt.Sprintf("the table has more than %d columns", limits.Columns)}
	}
	for i, cell := range record {
		line, _ := c.FieldPos(i)
		if len(cell) > limits.Cell {
			return &DataError{line, i + 1, fmt.Sprintf("the cell has more than %d bytes", limits.Cell)}
		}
		if !utf8.ValidString(cell) {
			return &DataError{line, i + 1, "the cell is not UTF-8"}
		}
	}
	return nil
}

func header(c *csv.Reader, record []string) error {
	seen := map[string]bool{}
	for i, name := range record {
		line, _ := c.FieldPos(i)
		switch {
		case name == "":
			return &DataError{line, i + 1, "the column has no name"}
		case strings.ContainsRune(name, '\ufeff'):
			return &DataError{line, i + 1, "the name of the column has a byte order mark"}
		case seen[name]:
			return &DataError{line, i + 1, fmt.Sprintf("another column has the name %q too", name)}
		}
		seen[name] = true
	}
	return nil
}

// Digest identifies the table: "sha256:" and 64 hex digits. It depends on the order of rows and columns, and not
// on how a file quotes its cells.
func (d *Data) Digest() string {
	b := bytes.NewBufferString("causal-data/1\x00")
	put := func(row []string) {
		for _, cell := range row {
			fmt.Fprintf(b, "%d:%s,", len(cell), cell)
		}
		b.WriteByte('\n')
	}
	put(d.Columns)
	for _, row := range d.Rows {
		put(row)
	}
	return plan.DigestOf(b.Bytes())
}

// validate says what keeps a table from being one; those of [ReadCSV] are right.
func (d *Data) validate() error {
	seen := map[string]bool{}
	for i, name := range d.Columns {
		if name == "" || seen[name] {
			return &DataError{1, i + 1, fmt.Sprintf("the name %q of a column is empty, or not the only one", name)}
		}
		seen[name] = true
	}
	for i, row := range d.Rows {
		if len(row) != len(d.Columns) {
			return &DataError{d.line(i), 1, "the row has another number of cells than the first"}
		}
	}
	return nil
}

// line returns the line of a row; a table that was not read from a file has one for each row, after the header.
func (d *Data) line(row int) int {
	if row < len(d.lines) {
		return d.lines[row]
	}
	return row + 2
}

// column returns the index of a column, or -1.
func (d *Data) column(name string) int {
	for i, c := range d.Columns {
		if c == name {
			return i
		}
	}
	return -1
}

// number reads a cell as a number in decimal.
func number(cell string) (float64, bool) {
	if strings.Trim(cell, "0123456789+-.eE") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(cell, 64)
	return x, err == nil && x >= -causal.MaxNumber && x <= causal.MaxNumber
}
