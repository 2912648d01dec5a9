package fit

import (
	"bytes"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
)

func TestReadCSV(t *testing.T) {
	d, err := ReadCSV(strings.NewReader("\ufeffa,\"b\"\"\",c\r\n1,,\"x\ny\"\r\n\n,2,z\n"), Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{"a", `b"`, "c"}, d.Columns)
	require.Equal(t, [][]string{{"1", "", "x\ny"}, {"", "2", "z"}}, d.Rows)
	require.Equal(t, []int{2, 5}, d.lines)
	other, err := ReadCSV(strings.NewReader("a,\"b\"\"\",\"c\"\n\"1\",\"\",\"x\ny\"\n\"\",2,z"), Limits{})
	require.NoError(t, err)
	require.Equal(t, d.Digest(), other.Digest())
	other.Rows[0][0] = "2"
	require.NotEqual(t, d.Digest(), other.Digest())
	moved := &Data{Columns: []string{"ab", "c"}, Rows: [][]string{{"1", "2"}}}
	require.NotEqual(t, moved.Digest(), (&Data{Columns: []string{"a", "bc"}, Rows: [][]string{{"1", "2"}}}).Digest())
}

func TestReadCSVRefuses(t *testing.T) {
	small := Limits{Bytes: 40, Rows: 2, Columns: 3, Cell: 8}
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "line 1, column 1: the table has no row with the names of its columns"},
		{"bytes", strings.Repeat("a", 41), "the table has more than 40 bytes"},
		{"rows", "a\n1\n2\n3\n", "line 4, column 1: the table has more than 2 rows"},
		{"columns", "a,b,c,d\n", "line 1, column 4: the table has more than 3 columns"},
		{"a long cell", "a,b\n1,123456789\n", "line 2, column 2: the cell has more than 8 bytes"},
		{"a short row", "a,b\n1\n", "line 2, column 1: the row has another number of cells than the first"},
		{"a lone quote", "a,b\n1,x\"y\n", "line 2, column 4: the line is not CSV: a quote is missing, or is where none may be"},
		{"an open quote", "a,b\n1,\"y\n", "line 2, column 6: the line is not CSV: a quote is missing, or is where none may be"},
		{"no UTF-8", "a,b\n1,\xff\n", "line 2, column 2: the cell is not UTF-8"},
		{"no name", "a,,b\n", "line 1, column 2: the column has no name"},
		{"two byte order marks", "\ufeff\ufeffa\n", "line 1, column 1: the name of the column has a byte order mark"},
		{"a name twice", "a,b,a\n", `line 1, column 3: another column has the name "a" too`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadCSV(strings.NewReader(c.in), small)
			var at *DataError
			require.ErrorAs(t, err, &at)
			require.EqualError(t, err, c.want)
		})
	}
	broken := errors.New("broken")
	_, err := ReadCSV(iotest.ErrReader(broken), Limits{})
	require.ErrorIs(t, err, broken)
}

func TestNumber(t *testing.T) {
	for _, good := range []string{"0", "-1.5", "+2", "1e6", ".5", "1e100"} {
		_, ok := number(good)
		require.True(t, ok, good)
	}
	for _, bad := range []string{"", " 1", "1,5", "NaN", "Inf", "-inf", "0x10", "1_000", "1e101", "-1e101", "1e999", "1e", "--1"} {
		_, ok := number(bad)
		require.False(t, ok, bad)
	}
}

func TestSample(t *testing.T) {
	d, err := ReadCSV(strings.NewReader("n,c,other\n1,a,\n,a,x\n2,,x\n3,b,x\n"), Limits{})
	require.NoError(t, err)
	variables := []*causal.Variable{{Name: "n"}, {Name: "c", Values: []string{"a", "b"}}}
	s, err := d.sample(variables)
	require.NoError(t, err)
	require.Equal(t, []int{0, 3}, s.rows)
	require.Equal(t, 2, s.missing)
	require.Equal(t, []float64{1, 3}, s.columns["n"].numbers)
	require.Equal(t, []int{0, 1}, s.columns["c"].codes)

	d.Rows[3][0] = "three"
	_, err = d.sample(variables)
	require.EqualError(t, err, `line 5, column 1: "three" is not a number up to 1e+100, and n is one`)
	d.Rows[3][0], d.Rows[0][1] = "3", "d"
	_, err = d.sample(variables)
	require.EqualError(t, err, `line 2, column 2: "d" is no category of c`)
}

// TestHeldOut: a row's place depends on its index alone, and the shares are right.
func TestHeldOut(t *testing.T) {
	for _, share := range []float64{0.1, 0.2, 0.5} {
		n := 0
		for i := range 10_000 {
			if heldOut(i, share) {
				n++
			}
		}
		require.InDelta(t, share*10_000, n, 200)
	}
	var first []int
	for i := range 30 {
		if heldOut(i, 0.2) {
			first = append(first, i)
		}
	}
	require.Equal(t, []int{2, 4, 6}, first)
}

func FuzzReadCSV(f *testing.F) {
	for _, seed := range []string{"", "a,b\n1,2\n", "a\n\"x\ny\"\n", "\ufeffa,b\r\n,\r\n", "\ufeff\ufeffa,b", "a,a\n", "a\n\"", "a,b\n1\n", "a\n\xff\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		limits := Limits{Bytes: 4096, Rows: 16, Columns: 8, Cell: 64}
		d, err := ReadCSV(bytes.NewReader(raw), limits)
		if err != nil {
			var at *DataError
			require.ErrorAs(t, err, &at)
			require.Nil(t, d)
			return
		}
		require.NoError(t, d.validate())
		require.LessOrEqual(t, len(d.Rows), limits.Rows)
		require.LessOrEqual(t, len(d.Columns), limits.Columns)
		require.Len(t, d.lines, len(d.Rows))
		// What is written again is read again, but for empty lines.
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		require.NoError(t, w.Write(d.Columns))
		require.NoError(t, w.WriteAll(d.Rows))
		again, err := ReadCSV(&b, Limits{})
		require.NoError(t, err)
		// Package csv reads "\r\n" in a cell as "\n".
		if len(d.Columns) > 1 && !bytes.Contains(raw, []byte("\r")) {
			require.Equal(t, d.Digest(), again.Digest())
		}
		s, err := d.sample([]*causal.Variable{{Name: d.Columns[0]}})
		if err == nil {
			require.Equal(t, len(d.Rows), len(s.rows)+s.missing)
		}
	})
}
