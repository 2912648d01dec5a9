package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// saltBytes is the length of a body's salt.
const saltBytes = 16

// Body is the content of an entry. The entry holds only its digest, so that the body can be
// pruned; the salt prevents guessing the content of a pruned body.
type Body struct {
	Data json.RawMessage
	Salt [saltBytes]byte
}

// Encode returns the canonical bytes: {"data":…,"salt":"32 hex digits"}.
func (b Body) Encode() ([]byte, error) {
	data, ok := plan.Rewrite(b.Data)
	if !ok {
		// As deep in something as they are in the body.
		v, err := schemas.Decode(slices.Concat([]byte("["), b.Data, []byte("]")))
		if err != nil {
			return nil, fmt.Errorf("encode body: %w: %w", ErrInvalid, err)
		}
		list, _ := v.([]any)
		if len(list) != 1 {
			return nil, fmt.Errorf("encode body: %w: the data are not one value", ErrInvalid)
		}
		if _, ok := list[0].(map[string]any); !ok {
			return nil, fmt.Errorf("encode body: %w: the data are not an object", ErrInvalid)
		}
		if data, err = plan.Canonical(list[0]); err != nil {
			return nil, fmt.Errorf("encode body: %w: %w", ErrInvalid, err)
		}
	}
	const head, salt, tail = `{"data":`, `,"salt":"`, `"}`
	raw := make([]byte, 0, len(head)+len(data)+len(salt)+2*saltBytes+len(tail))
	raw = append(append(append(raw, head...), data...), salt...)
	raw = append(hex.AppendEncode(raw, b.Salt[:]), tail...)
	if len(raw) > MaxBodyBytes {
		return nil, fmt.Errorf("encode body: %w: %d bytes, more than %d", ErrInvalid, len(raw), MaxBodyBytes)
	}
	return raw, nil
}

// DecodeBody reads the bytes of [Body.Encode]; the order of the data's keys is for
// whoever reads them. A body that [Seal] has made is [ErrSealed].
func DecodeBody(raw []byte) (Body, error) {
	if len(raw) > 2*MaxBodyBytes {
		return Body{}, fmt.Errorf("decode body: %d bytes, more than %d", len(raw), 2*MaxBodyBytes)
	}
	if bytes.IndexByte(raw, '\n') >= 0 {
		return Body{}, errors.New("decode body: it has a line feed")
	}
	v, err := schemas.Decode(raw)
	if err != nil {
		return Body{}, fmt.Errorf("decode body: %w", err)
	}
	if b, ok := scanBody(raw, v); ok {
		return b, nil
	}
	return decodeBody(raw)
}

// scanBody decodes a body that is not sealed, from its bytes and their decoded value. It
// reports whether the body is written in the common way.
func scanBody(raw []byte, v any) (b Body, ok bool) {
	const head, salt, tail = `{"data":`, `,"salt":"`, `"}`
	end := len(raw) - len(tail) - 2*saltBytes - len(salt)
	if end <= len(head) || string(raw[:len(head)]) != head || string(raw[end:end+len(salt)]) != salt || string(raw[len(raw)-len(tail):]) != tail {
		return b, false
	}
	// The value has two members, so the bytes between are the value of the first.
	m, _ := v.(map[string]any)
	if _, isObject := m["data"].(map[string]any); !isObject || len(m) != 2 || raw[len(head)] != '{' || raw[end-1] != '}' {
		return b, false
	}
	digits := raw[end+len(salt) : len(raw)-len(tail)]
	if bytes.ContainsAny(digits, "ABCDEF") {
		return b, false
	}
	if _, err := hex.Decode(b.Salt[:], digits); err != nil {
		return b, false
	}
	b.Data = bytes.Clone(raw[len(head):end])
	return b, true
}

// decodeBody is DecodeBody for any JSON.
func decodeBody(raw []byte) (Body, error) {
	var j struct {
		Data   json.RawMessage `json:"data"`
		Salt   string          `json:"salt"`
		Sealed json.RawMessage `json:"sealed"`
	}
	if err := strict.Decode(raw, &j); err != nil {
		return Body{}, fmt.Errorf("decode body: %w", err)
	}
	if len(j.Sealed) > 0 {
		if err := checkSealed(raw); err != nil {
			return Body{}, fmt.Errorf("decode body: %w", err)
		}
		return Body{}, ErrSealed
	}
	salt, err := hex.DecodeString(j.Salt)
	if err != nil || len(salt) != saltBytes || len(j.Data) == 0 {
		return Body{}, errors.New("decode body: it is not {data, salt}")
	}
	b := Body{Data: j.Data, Salt: [saltBytes]byte(salt)}
	again, err := b.Encode()
	if err != nil || !bytes.Equal(again, raw) {
		return Body{}, errors.New("decode body: it is not written as bodies are")
	}
	return b, nil
}

// ErrSealed reports that what is stored is encrypted, and that its key is not here.
var ErrSealed = errors.New("sealed")

// BodyDigest is what an entry says of a body: "sha256:" and 64 hex digits.
func BodyDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
