package mcp

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEvents(t *testing.T) {
	for in, want := range map[string][]event{
		"data: a\n\n":                                {{data: []byte("a")}},
		"data:a\r\n\r\n":                             {{data: []byte("a")}},
		"data:  a\r\r":                               {{data: []byte(" a")}},
		"data: a\ndata:b\ndata\n\n":                  {{data: []byte("a\nb\n")}},
		"event: message\ndata: a: b\nid: 7\n\n":      {{name: "message", data: []byte("a: b"), id: []byte("7")}},
		"event: x\nevent: y\ndata: \n\n":             {{name: "y", data: []byte{}}},
		": ping\n\ndata: a\n\ndata: b\n\n":           {{}, {data: []byte("a")}, {data: []byte("b")}},
		"database: a\nDATA: b\n data: c\n\n":         {{}},
		"data: no end\n":                             nil,
		"data: no end":                               nil,
		"":                                           nil,
		"event: " + strings.Repeat("x", 99) + "\n\n": {{name: strings.Repeat("x", fieldLong)}},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader} {
			s := newEvents(wrap(strings.NewReader(in)), 100, 1000)
			var got []event
			for {
				e, err := s.next()
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
				require.Positive(t, e.size)
				e.size = 0
				got = append(got, e)
			}
			require.Equal(t, want, got, "%s %q", name, in)
		}
	}
}

func TestEventsPlace(t *testing.T) {
	for in, want := range map[string][2]string{
		"id: 7\nretry: 20\n\n":                         {"7", "20"},
		"id: 7\n\ndata: a\n\n":                         {"7", ""},
		"id: 7\nid:8\nretry:1\nretry\n\n":              {"8", ""},
		"id: 7\n\nid: 8\n":                             {"7", ""},
		"id: 7\n\nid\n\n":                              {"", ""},
		"id: 7\n\nid: a b\n\n":                         {"", ""},
		"id: 7\n\nid: \x00\n\n":                        {"", ""},
		"id: " + strings.Repeat("x", maxID) + "\n\n":   {strings.Repeat("x", maxID), ""},
		"id: " + strings.Repeat("x", maxID+1) + "\n\n": {"", ""},
		"retry: " + strings.Repeat("1", 99) + "\n\n":   {"", strings.Repeat("1", fieldLong)},
	} {
		for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			s := newEvents(wrap(strings.NewReader(in)), 100, 10_000)
			for err := error(nil); err == nil; {
				_, err = s.next()
			}
			require.Equal(t, want, [2]string{s.id, s.retry}, "%q", in)
		}
	}
	for retry, want := range map[string]time.Duration{
		"": usualPause, "x": usualPause, "-1": usualPause, "+1": usualPause, "0": minPause, "500": 500 * time.Millisecond, "100000000": maxPause,
		strings.Repeat("9", 32): usualPause,
	} {
		require.Equal(t, want, pauseOf(retry), retry)
	}
}

func TestEventsOver(t *testing.T) {
	long := `data: {"jsonrpc":"2.0",` + "\n" + `data: "result":"` + strings.Repeat("x", 200) + `","id":12}` + "\n\ndata: next\n\n"
	for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
		s := newEvents(wrap(strings.NewReader(long)), 100, 1000)
		e, err := s.next()
		require.NoError(t, err)
		require.Nil(t, e.data)
		id, ok := e.over.id()
		require.True(t, ok)
		require.EqualValues(t, 12, id)
		e, err = s.next()
		require.NoError(t, err)
		require.Equal(t, "next", string(e.data))
	}
	for _, in := range []string{"data: ", ": ", "id: ", "x"} {
		_, err := newEvents(io.MultiReader(strings.NewReader(in), strings.NewReader(strings.Repeat("x", 100_000))), 100, 1000).next()
		require.ErrorIs(t, err, errEndless)
		_, err = newEvents(strings.NewReader(strings.Repeat(in+"x\n", 100_000)), 100, 1000).next()
		require.ErrorIs(t, err, errEndless)
	}
}

func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "event: endpoint\r\ndata: /x\r\n\r\n", ":\r\rdata", "\n\n\n", "data: a\ndata: b\n\nid: 1"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, in string, limit int) {
		limit = max(limit%64, 1)
		read := func(r io.Reader) (all []event) {
			s := newEvents(r, limit, 256)
			for {
				e, err := s.next()
				if len(e.data) > limit || len(e.name) > fieldLong {
					t.Fatalf("keeps too much: %v", e)
				}
				if err != nil {
					return all
				}
				all = append(all, event{name: e.name, data: e.data})
			}
		}
		// However the bytes arrive, the events are the same, unless one is near the bound on its size, which
		// counts pieces.
		if len(in) < 100 {
			require.Equal(t, read(strings.NewReader(in)), read(iotest.OneByteReader(strings.NewReader(in))))
		}
	})
}
