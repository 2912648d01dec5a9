package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Packet is an evidence packet: the evidence for an effect, part by part. Entries refer to
// its digest, over canonical JSON.
type Packet struct {
	Format string `json:"format"`
	// Parts are sorted by name: action, approvals, decision, shadow, simulation, trust.
	Parts []Part `json:"parts"`
}

// EvidenceRef is the name under which an entry refers to its evidence packet. When the
// entry's body is pruned or erased, so is the packet.
const EvidenceRef = "evidence"

// PacketFormat is the format of evidence packets.
const PacketFormat = "chimera.ai/ledger/evidence/v1"

// MaxPacketBytes bounds the canonical bytes of an evidence packet.
const MaxPacketBytes = 4 << 20

// Encode returns the canonical bytes, whose SHA-256 is the packet's digest: its
// parts sorted by name, each name once.
func (p Packet) Encode() ([]byte, error) {
	p.Format = PacketFormat
	p.Parts = slices.Clone(p.Parts)
	slices.SortFunc(p.Parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(p.Parts); i++ {
		if p.Parts[i].Name == p.Parts[i-1].Name {
			return nil, fmt.Errorf("encode evidence: %w: two parts are called %.80q", ErrInvalid, p.Parts[i].Name)
		}
	}
	raw, err := json.Marshal(p)
	if err == nil {
		var v any
		if v, err = schemas.Decode(raw); err == nil {
			raw, err = plan.Canonical(v)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("encode evidence: %w: %w", ErrInvalid, err)
	case len(raw) > MaxPacketBytes:
		return nil, fmt.Errorf("encode evidence: %w: %d bytes, more than %d", ErrInvalid, len(raw), MaxPacketBytes)
	}
	return raw, nil
}

// DecodePacket reads the bytes of [Packet.Encode].
func DecodePacket(raw []byte) (p Packet, err error) {
	if len(raw) > MaxPacketBytes {
		return p, fmt.Errorf("decode evidence: %d bytes, more than %d", len(raw), MaxPacketBytes)
	}
	if err := strict.Decode(raw, &p); err != nil {
		return p, fmt.Errorf("decode evidence: %w", err)
	}
	if p.Format != PacketFormat {
		return p, fmt.Errorf("decode evidence: the format is %.80q, not %s", p.Format, PacketFormat)
	}
	again, err := p.Encode()
	if err == nil && !bytes.Equal(again, raw) {
		err = errors.New("decode evidence: the bytes are not canonical")
	}
	return p, err
}

// Part is one document of a packet.
type Part struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data"`
}
