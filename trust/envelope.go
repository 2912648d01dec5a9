package trust

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// Envelope is a DSSE envelope. Its payload are the bytes as they were received.
type Envelope struct {
	Type       string
	Payload    []byte
	Signatures []Signature
}

// Signature is one signature of an envelope. KeyID is a hint of its maker, which
// nothing is concluded from.
type Signature struct {
	KeyID string
	Sig   []byte
}

type envelopeJSON struct {
	PayloadType string          `json:"payloadType"`
	Payload     string          `json:"payload"`
	Signatures  []signatureJSON `json:"signatures"`
}

type signatureJSON struct {
	KeyID string `json:"keyid,omitempty"`
	Sig   string `json:"sig"`
}

// PAE is what is signed: DSSE's pre-authentication encoding.
func PAE(payloadType string, payload []byte) []byte {
	b := make([]byte, 0, len(payloadType)+len(payload)+40)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(payloadType)), 10)
	b = append(b, ' ')
	b = append(b, payloadType...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, ' ')
	return append(b, payload...)
}

// ParseEnvelope reads an envelope of a payload type. It verifies nothing.
func ParseEnvelope(raw []byte, payloadType string) (*Envelope, error) {
	return parseEnvelope(raw, payloadType, 1)
}

// parseEnvelope reads an envelope with at least so many signatures as least says.
func parseEnvelope(raw []byte, payloadType string, least int) (*Envelope, error) {
	if len(raw) > MaxEnvelope {
		return nil, invalid("an envelope of %d bytes, more than %d", len(raw), MaxEnvelope)
	}
	var j envelopeJSON
	if _, err := exact(raw, &j); err != nil {
		return nil, invalid("the envelope: %s", err)
	}
	if j.PayloadType != payloadType {
		return nil, invalid("the payload's type is %.120q, not %s", j.PayloadType, payloadType)
	}
	if n := len(j.Signatures); n < least || n > MaxSignatures {
		return nil, invalid("%d signatures; there must be between %d and %d", n, least, MaxSignatures)
	}
	e := &Envelope{Type: j.PayloadType}
	var err error
	if e.Payload, err = unbase64(j.Payload); err != nil {
		return nil, invalid("the payload is not base64")
	}
	for i, s := range j.Signatures {
		sig, err := unbase64(s.Sig)
		if err != nil || len(sig) == 0 {
			return nil, invalid("signature %d is not base64", i)
		}
		if len(s.KeyID) > maxName {
			return nil, invalid("the key id of signature %d is over %d bytes", i, maxName)
		}
		e.Signatures = append(e.Signatures, Signature{s.KeyID, sig})
	}
	return e, nil
}

// Encode writes the envelope as canonical JSON.
func (e *Envelope) Encode() ([]byte, error) {
	j := envelopeJSON{PayloadType: e.Type, Payload: base64.StdEncoding.EncodeToString(e.Payload), Signatures: []signatureJSON{}}
	for _, s := range e.Signatures {
		j.Signatures = append(j.Signatures, signatureJSON{s.KeyID, base64.StdEncoding.EncodeToString(s.Sig)})
	}
	raw, err := canon(j)
	if err == nil && len(raw) > MaxEnvelope {
		return nil, invalid("an envelope of %d bytes, more than %d", len(raw), MaxEnvelope)
	}
	return raw, err
}

// Sign adds a signature by a key. It replaces an earlier signature of the key.
func (e *Envelope) Sign(k *Key) error {
	sig, err := k.sign(PAE(e.Type, e.Payload))
	if err != nil {
		return err
	}
	pub, err := ParsePublic(k.Public())
	if err != nil {
		return err
	}
	pae := PAE(e.Type, e.Payload)
	for i, s := range e.Signatures {
		if pub.Verify(pae, s.Sig) {
			e.Signatures[i] = Signature{pub.ID(), sig}
			return nil
		}
	}
	if len(e.Signatures) == MaxSignatures {
		return invalid("the envelope has %d signatures already", MaxSignatures)
	}
	e.Signatures = append(e.Signatures, Signature{pub.ID(), sig})
	return nil
}

// By returns the indexes of the keys that have signed, in order, each once. It ignores key
// ids.
func (e *Envelope) By(keys []Public) []int {
	pae := PAE(e.Type, e.Payload)
	var out []int
	for i, k := range keys {
		for _, s := range e.Signatures {
			if k.Verify(pae, s.Sig) {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// seal makes an envelope with one signature over the JSON of a payload.
func seal(payloadType string, payload any, k *Key) ([]byte, error) {
	raw, err := canon(payload)
	if err != nil {
		return nil, invalid("the payload: %s", err)
	}
	e := &Envelope{Type: payloadType, Payload: raw}
	if err := e.Sign(k); err != nil {
		return nil, err
	}
	return e.Encode()
}

var _ json.Marshaler = (*Envelope)(nil)

// MarshalJSON is [Envelope.Encode].
func (e *Envelope) MarshalJSON() ([]byte, error) { return e.Encode() }
