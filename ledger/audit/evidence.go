package audit

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"chimera.ai/engine/ledger"
)

// packet is a decoded line of evidence.jsonl.
type packet struct {
	digest string
	is     ledger.Packet
	err    error
}

func readPacket(line []byte) packet {
	p, err := ledger.DecodePacket(line)
	return packet{ledger.BodyDigest(line), p, err}
}

// evidence begins to read the evidence packets. An export without the file has
// none.
func (v *verifier) evidence(dir string) (end func() error, err error) {
	nothing := func() error { return nil }
	lines, err := openLines(filepath.Join(dir, EvidenceFile), ledger.MaxPacketBytes+1)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nothing, nil
	case errors.Is(err, errNoFile):
		v.problem(BadExport, -1, "%s", err)
		return nothing, nil
	case err != nil:
		return nil, err
	}
	v.packets = side(lines, readPacket)
	return func() error {
		v.packets.stop()
		return lines.close()
	}, nil
}

// packet takes the packet of an entry whose body everybody can read: then the
// packet must exist too. It returns nil if it does not, or cannot be read.
func (v *verifier) packet(index int64, digest string) *ledger.Packet {
	if v.packets != nil {
		p, err := v.packets.peek()
		if err != nil && !errors.Is(err, io.EOF) {
			v.problem(BadBody, index, "%s: %s", EvidenceFile, err)
			return nil
		}
		if err == nil && p.digest == digest {
			v.packets.take()
			v.Packets++
			if p.err != nil {
				v.problem(BadBody, index, "its evidence packet: %s", p.err)
				return nil
			}
			return &p.is
		}
	}
	v.problem(BadBody, index, "the evidence packet %s is not there, and its body is", digest)
	return nil
}

// evidenceEnds reports packets that belong to no entry.
func (v *verifier) evidenceEnds() {
	if v.packets == nil {
		return
	}
	if p, err := v.packets.peek(); err == nil {
		v.problem(BadBody, -1, "%s has a packet that no entry has: %s", EvidenceFile, p.digest)
	} else if !errors.Is(err, io.EOF) {
		v.problem(BadBody, -1, "%s: %s", EvidenceFile, err)
	}
}
