// Package witness asks the witnesses of a log, and implements a witness.
//
// A witness is somebody else's key that cosigns the log's checkpoints
// (https://c2sp.org/tlog-cosignature). It keeps the last one that it has signed,
// and signs another only with a proof that the tree has grown from there. So two
// auditors who ask for its cosignature see one log, and a log that was made anew
// gets none.
//
// [Asker] asks each witness after a checkpoint, in parallel to the log: a slow or
// unreachable witness delays nothing. It only asks for the latest checkpoint, and
// verifies a cosignature before storing it.
//
// # Request
//
// The request is the same in both ways, the body of add-checkpoint of
// https://c2sp.org/tlog-witness:
//
//	old SIZE          of the checkpoint that the witness has cosigned last; 0 for none
//	HASH…             the proof that the log has grown from there, in base64, a line each
//	                  (an empty line)
//	CHECKPOINT        as the log has signed it
//
// # By HTTP
//
// It is posted to URL/add-checkpoint. The answers are those of tlog-witness: 200
// with signature lines, 409 with the size that the witness knows.
//
// # By files
//
// For a witness of another user, or on a machine without a network, both sides
// share a folder, on a disk or on a stick that is carried:
//
//	request   written by the log: the latest request
//	reply     written by the witness: the checkpoint that it has cosigned last, with
//	          its cosignature
//
// Each writes its file whole, under another name, and renames it. The log makes
// the next request from the size in reply, so that a witness that has not looked
// for long, or has lost the folder, is asked what it can sign. [Cosigner] is the
// witness's side.
package witness

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	cosign "github.com/transparency-dev/formats/note"

	"chimera.ai/engine/ledger"
)

// Witness says how to ask a witness.
type Witness struct {
	// Name is what the log's operator calls it.
	Name string
	// Key is its verifier key, NAME+HASH+KEY.
	Key string
	// Dir is the folder shared with it; URL is where it answers by HTTP.
	Dir, URL string
}

// MaxWitnesses bounds the witnesses of a log.
const MaxWitnesses = 32

// Check reports what is wrong with it, or returns nil.
func (w Witness) Check() error {
	if _, err := cosign.NewVerifierForCosignatureV1(w.Key); err != nil {
		return fmt.Errorf("the key of the witness %s is not a verifier key, NAME+HASH+KEY", w.Name)
	}
	switch {
	case w.Dir == "" && w.URL == "":
		return fmt.Errorf("the witness %s has neither file nor url", w.Name)
	case w.Dir != "" && w.URL != "":
		return fmt.Errorf("the witness %s has both file and url", w.Name)
	case w.Dir != "":
		return nil
	}
	u, err := url.Parse(w.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("the url of the witness %s is not one such as https://witness.example.com", w.Name)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the url of the witness %s has more than a host and a path", w.Name)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("the url of the witness %s must be https, but on this machine", w.Name)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// CheckAll reports what is wrong with the witnesses of a log, whose names and keys
// must be distinct.
func CheckAll(all []Witness, quorum int) error {
	if len(all) > MaxWitnesses {
		return fmt.Errorf("%d witnesses, more than %d", len(all), MaxWitnesses)
	}
	names, keys := map[string]bool{}, map[string]bool{}
	for _, w := range all {
		if err := w.Check(); err != nil {
			return err
		}
		if names[w.Name] || keys[w.Key] {
			return fmt.Errorf("the witness %s, or its key, is listed twice", w.Name)
		}
		names[w.Name], keys[w.Key] = true, true
	}
	if quorum < 0 || quorum > len(all) {
		return fmt.Errorf("%d of %d witnesses cannot cosign", quorum, len(all))
	}
	return nil
}

// Bounds of what is read.
const (
	// maxProof bounds the lines of a proof, as tlog-witness does.
	maxProof = 63
	// maxRequest bounds a request in bytes.
	maxRequest = ledger.MaxCheckpointBytes + maxProof*64
	// maxAnswer bounds the signature lines of an answer by HTTP, in bytes.
	maxAnswer = 16 << 10
)

// Request asks a witness for its cosignature.
type Request struct {
	// Old is the size of the checkpoint that it has cosigned last.
	Old int64
	// Proof shows that the tree of Checkpoint begins with the Old entries.
	Proof []ledger.Hash
	// Checkpoint is the one to cosign, as it is signed.
	Checkpoint []byte
}

// Encode returns the bytes of the request.
func (r Request) Encode() []byte {
	b := fmt.Appendf(nil, "old %d\n", r.Old)
	for _, h := range r.Proof {
		b = base64.StdEncoding.AppendEncode(b, h[:])
		b = append(b, '\n')
	}
	return append(append(b, '\n'), r.Checkpoint...)
}

var errRequest = errors.New("it is not a request for a cosignature")

// ParseRequest reads a request, in its one form.
func ParseRequest(raw []byte) (Request, error) {
	var r Request
	if len(raw) > maxRequest {
		return r, fmt.Errorf("%w: %d bytes, more than %d", errRequest, len(raw), maxRequest)
	}
	head, checkpoint, ok := bytes.Cut(raw, []byte("\n\n"))
	if !ok {
		return r, fmt.Errorf("%w: it has no empty line", errRequest)
	}
	lines := strings.Split(string(head), "\n")
	size, err := size(strings.TrimPrefix(lines[0], "old "))
	if err != nil || !strings.HasPrefix(lines[0], "old ") {
		return r, fmt.Errorf("%w: it does not begin with the old size", errRequest)
	}
	if len(lines)-1 > maxProof {
		return r, fmt.Errorf("%w: a proof of %d lines", errRequest, len(lines)-1)
	}
	r = Request{Old: size, Checkpoint: checkpoint}
	for _, line := range lines[1:] {
		h, err := base64.StdEncoding.DecodeString(line)
		// The library passes over carriage returns, and takes any bits where base64
		// has none to take: a hash has one text.
		if err != nil || len(h) != len(ledger.Hash{}) || base64.StdEncoding.EncodeToString(h) != line {
			return Request{}, fmt.Errorf("%w: a line of the proof is no hash", errRequest)
		}
		r.Proof = append(r.Proof, ledger.Hash(h))
	}
	return r, nil
}

// size reads the one text of a size.
func size(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, errors.New("no size of a tree")
	}
	return n, nil
}
