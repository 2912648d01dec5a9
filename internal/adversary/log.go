package adversary

import (
	"fmt"
	mathrand "math/rand/v2"
	"testing"

	"chimera.ai/engine/ledger"
)

// randomEntry is an entry like another, of which some bytes are others.
func (s *story) randomEntry(t testing.TB, thief Thief, role string, random *mathrand.Rand) *Attack {
	t.Helper()
	kinds := s.kinds()
	f := s.like(t, s.donor(random, ledger.Kind(kinds[random.IntN(len(kinds))])))
	raw, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for range 1 + random.IntN(3) {
		at = random.IntN(len(raw))
		raw[at] = byte(' ' + random.IntN(95))
	}
	f.raw = raw
	return &Attack{Thief: thief, Class: EntryMade, About: string(f.Kind), Name: fmt.Sprintf("other bytes, at %d", at), Role: role, SQL: []Statement{f.insert(t)}}
}

// treeAttacks are those on checkpoints, cosignatures, places and tiles.
func (d *Deployment) treeAttacks(t testing.TB, thief Thief, role string) (all []*Attack) {
	t.Helper()
	add := func(name string, statements ...string) {
		a := &Attack{Thief: thief, Class: TreeBent, About: "tree", Name: name, Role: role}
		for _, s := range statements {
			a.SQL = append(a.SQL, Statement{Text: s})
		}
		all = append(all, a)
	}
	const old = "SELECT checkpoint FROM log_batches ORDER BY n LIMIT 1 OFFSET 2"
	add("an old checkpoint again, said to be of more", "INSERT INTO log_batches (n, size, grown, checkpoint) SELECT max(n) + 1, max(grown), max(grown) + 1, ("+old+") FROM log_batches")
	add("an old checkpoint again, said to be of as many", "INSERT INTO log_batches (n, size, grown, checkpoint) SELECT max(n) + 1, max(grown), max(grown), ("+old+") FROM log_batches")
	add("the last checkpoint again, said to be of more", "INSERT INTO log_batches (n, size, grown, checkpoint) SELECT max(n) + 1, max(grown), max(grown) + 1, (SELECT checkpoint FROM log_batches ORDER BY n DESC LIMIT 1) FROM log_batches")
	add("the last number taken", "INSERT INTO log_batches (n, size, grown, checkpoint) SELECT 9223372036854775807, grown, grown, checkpoint FROM log_batches ORDER BY n DESC LIMIT 1")
	add("garbage as a checkpoint", `INSERT INTO log_batches (n, size, grown, checkpoint) SELECT max(n) + 1, max(grown), max(grown), '\x00' FROM log_batches`)
	add("a cosignature of another size", `INSERT INTO log_cosignatures (size, checkpoint) SELECT max(size) + 100, (SELECT checkpoint FROM log_cosignatures ORDER BY serial LIMIT 1) FROM log_cosignatures`)
	add("garbage as a cosignature", `INSERT INTO log_cosignatures (size, checkpoint) SELECT max(grown), '\x00' FROM log_batches`)
	add("a place taken ahead", "INSERT INTO log_index (place, serial) SELECT max(place) + 1, (SELECT max(serial) FROM entries) FROM log_index")
	add("a tile that is wider", `INSERT INTO log_tiles (level, n, width, data) SELECT level, n, width + 1, data || '\x00' FROM log_tiles`)
	add("a tile of garbage ahead", `INSERT INTO log_tiles (level, n, width, data) SELECT 0, max(n) + 1, 1, decode(repeat('00', 32), 'hex') FROM log_tiles WHERE level = 0`)
	add("a tile dropped", "DELETE FROM log_tiles")
	add("a wider tile, then the narrower dropped", `INSERT INTO log_tiles (level, n, width, data) SELECT level, n, width + 1, data || decode(repeat('00', 32), 'hex') FROM log_tiles WHERE width < 256`, "DELETE FROM log_tiles t WHERE EXISTS (SELECT FROM log_tiles w WHERE w.level = t.level AND w.n = t.n AND w.width = t.width + 1)")
	return all
}
