package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Candidate is a row of the database that claims to be an entry. Whoever may write to the
// database may have put it there.
type Candidate struct {
	// Serial orders the rows: entries get their places in this order.
	Serial int64
	Bytes  []byte
	Hash   Hash
	// The other columns, which the bytes must bear out.
	Chain, Key string
	N          int64
	Kind       Kind
}

// Entry returns the entry that the row holds, or says why it holds none of this log that may
// have a place in it. It looks neither at the entry before in the chain nor at the body.
func (c *Candidate) Entry(origin string) (*Entry, error) {
	e, err := DecodeEntry(c.Bytes)
	if err != nil {
		return nil, err
	}
	switch {
	case LeafHash(c.Bytes) != c.Hash:
		return nil, fmt.Errorf("it is stored under the hash %s, which is not that of its bytes", c.Hash)
	case e.Origin != origin:
		return nil, fmt.Errorf("it is of the log %.120q", e.Origin)
	case e.Chain != c.Chain || e.N != c.N || e.Key != c.Key || e.Kind != c.Kind:
		return nil, fmt.Errorf("it is stored as %.120q in the place %d of the chain %.120q, and says something else", c.Key, c.N, c.Chain)
	}
	if why := e.Misplaced(); why != "" {
		return nil, errors.New(why)
	}
	return e, nil
}

// Place is the place of an entry in its chain.
type Place struct {
	Chain string
	N     int64
}

// Holder is the row that holds a place in a chain. Serial is 0 if there is none, and Index -1
// if the row has no place in the tree.
type Holder struct {
	Serial int64
	Hash   Hash
	Index  int64
}

// StoredBody is a body as it is stored; Pruned says that it is gone since it was pruned
// before its entry had a place.
type StoredBody struct {
	Bytes  []byte
	Pruned bool
	// What it is pruned by: its entry bears that out.
	Chain string
	Class Class
	At    Time
	// Key is the id of the key with which what its run states is sealed, "" for none.
	Key string
}

// Possible says why no entry of a kind has these data, or returns nil: see package model.
type Possible func(kind Kind, data json.RawMessage) error

// Belongs says why the body is not one that the entry may name, or is not stored as the body of
// that entry; or it returns nil. possible, if not nil, is asked about data that are not sealed.
func (b StoredBody) Belongs(e *Entry, possible Possible) error {
	if err := b.Check(e, possible); err != nil {
		return err
	}
	if b.Chain != e.Chain || b.Class != e.Class || b.At.Time().UnixMilli() != e.At.Time().UnixMilli() {
		return fmt.Errorf("its body is stored as one of class %.40q in the chain %.120q, stated at %s", string(b.Class), b.Chain, b.At)
	}
	if _, _, run := RunOf(e.Chain); run && !b.Pruned {
		if key, _ := Sealed(b.Bytes); key != b.Key {
			return fmt.Errorf("its body is sealed with the key %.40q, and what its run states with %.40q", key, b.Key)
		}
	}
	return nil
}

// Check is [StoredBody.Belongs] for callers that do not know how the body is stored.
func (b StoredBody) Check(e *Entry, possible Possible) error {
	switch {
	case b.Pruned:
		return nil
	case b.Bytes == nil:
		return errors.New("its body was never there")
	case BodyDigest(b.Bytes) != e.Body:
		return errors.New("its body has another digest")
	}
	body, err := DecodeBody(b.Bytes)
	switch {
	case errors.Is(err, ErrSealed) && e.Kind.Class().Rank() > Evidence.Rank():
		return fmt.Errorf("the body of an entry of kind %s is sealed, which none is", e.Kind)
	case errors.Is(err, ErrSealed):
		return nil
	case err != nil || possible == nil:
		return err
	}
	return possible(e.Kind, body.Data)
}

// Aside is a row that was set aside, since it is no entry that may have a place in the log.
type Aside struct {
	Candidate
	// Why says what is wrong with it, and At when it was set aside, on the store's clock.
	Why string
	At  Time
	// Bodied and Followed say that the body and the entry before it in its chain were there
	// then; the store finds that out itself.
	Bodied, Followed bool
}

// verdict says what becomes of a candidate.
type verdict int

const (
	// accepted: it gets its place. waiting: it may get one once the entry before it has.
	accepted verdict = iota
	waiting
	rejected
)

// judged is a candidate with its verdict; why says what is wrong with one that is rejected.
type judged struct {
	*Candidate
	e       *Entry
	verdict verdict
	why     error
}

// judge decides which candidates get places. They come in the order of their serials. Of those with
// large bodies it judges the first: reading them all could take longer than a batch may.
func judge(ctx context.Context, log Log, origin string, possible Possible, candidates []Candidate) ([]judged, error) {
	all := make([]judged, len(candidates))
	tips := map[string]*judged{}
	var places []Place
	before := make([]*judged, len(all)) // the one before in its chain, if that is in the batch
	asks := make([]int, len(all))       // else its place among places
	for i := range candidates {
		j := &all[i]
		*j = judged{Candidate: &candidates[i]}
		if j.e, j.why = j.Entry(origin); j.why != nil {
			j.verdict = rejected
			continue
		}
		if tip := tips[j.Chain]; tip != nil && tip.N == j.N-1 {
			before[i] = tip
		} else if j.N > 0 {
			asks[i] = len(places)
			places = append(places, Place{j.Chain, j.N - 1})
		}
		tips[j.Chain] = j
	}
	var holders []Holder
	if len(places) > 0 {
		var err error
		if holders, err = log.Holders(ctx, places); err != nil {
			return nil, err
		}
	}
	read := 0
	for first := 0; first < len(all); first += bodiesAtOnce {
		last := min(first+bodiesAtOnce, len(all))
		size, err := bodied(ctx, log, possible, all[first:last])
		if err != nil {
			return nil, err
		}
		if read += size; read >= maxJudged {
			all = all[:last]
		}
	}
	for i := range all {
		j := &all[i]
		if j.verdict == rejected {
			continue
		}
		switch {
		case j.N == 0:
		case before[i] != nil:
			j.follow(before[i])
		default:
			j.behind(holders[asks[i]])
		}
	}
	return all, nil
}

// bodiesAtOnce bounds the bodies that are read at once: whoever may add bodies may add large ones.
const bodiesAtOnce = 64

// maxJudged is the size of the bodies, in bytes, after which no more of a batch are read.
const maxJudged = 16 << 20

// bodied rejects the candidates whose bodies are not theirs, and returns the size of those that it
// has read, in bytes.
func bodied(ctx context.Context, log Log, possible Possible, some []judged) (size int, err error) {
	var digests []string
	for i := range some {
		if some[i].verdict != rejected {
			digests = append(digests, some[i].e.Body)
		}
	}
	if len(digests) == 0 {
		return 0, nil
	}
	stored, err := log.StoredBodies(ctx, digests)
	if err != nil {
		return 0, err
	}
	for i := range some {
		j := &some[i]
		if j.verdict == rejected {
			continue
		}
		size += len(stored[j.e.Body].Bytes)
		if j.why = stored[j.e.Body].Belongs(j.e, possible); j.why != nil {
			j.verdict = rejected
		}
	}
	return size, nil
}

// follow judges a candidate by the one before in its chain.
func (j *judged) follow(b *judged) {
	switch {
	case b.verdict == rejected:
		j.verdict, j.why = rejected, errors.New("the entry before it in its chain is none")
	case b.Hash != j.e.Prev:
		j.verdict, j.why = rejected, errFork
	default:
		j.verdict = b.verdict
	}
}

// behind judges a candidate by the row that holds the place before in its chain.
func (j *judged) behind(h Holder) {
	switch {
	case h.Serial == 0:
		j.verdict, j.why = rejected, errors.New("there is no entry before it in its chain")
	case h.Hash != j.e.Prev:
		j.verdict, j.why = rejected, errFork
	case h.Index >= 0:
	case h.Serial > j.Serial:
		j.verdict, j.why = rejected, errors.New("the entry before it in its chain was added later")
	default:
		// Somebody has removed it from those that wait for a place, to which it is returned.
		j.verdict = waiting
	}
}

var errFork = errors.New("it does not follow the entry before it in its chain")
