package causal

import (
	"crypto/sha256"
	"encoding/binary"
)

// philox is the counter-based generator Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror and
// D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. Its words are a function of a key and a
// counter, so that each number can be had by itself, in any order.
func philox(c0, c1, c2, c3, k0, k1 uint32) (w0, w1, w2, w3 uint32) {
	// Two rounds at a time, so that no word is moved.
	for range 5 {
		a, b := uint64(c0)*0xD2511F53, uint64(c2)*0xCD9E8D57
		d0, d2 := uint32(b>>32)^c1^k0, uint32(a>>32)^c3^k1
		d1, d3 := uint32(b), uint32(a)
		a, b = uint64(d0)*0xD2511F53, uint64(d2)*0xCD9E8D57
		c0, c2 = uint32(b>>32)^d1^(k0+0x9E3779B9), uint32(a>>32)^d3^(k1+0xBB67AE85)
		c1, c3 = uint32(b), uint32(a)
		k0, k1 = k0+0x3C6EF372, k1+0x76CF5D0A
	}
	return c0, c1, c2, c3
}

// source gives the uniform numbers of one prediction.
type source struct {
	key [2]uint32
	// rest are the counter's last two words: they are part of the key.
	rest [2]uint32
}

func newSource(digest, seed string) source {
	sum := sha256.Sum256([]byte("causal-noise/1\x00" + digest + "\x00" + seed))
	word := func(i int) uint32 { return binary.BigEndian.Uint32(sum[4*i:]) }
	return source{key: [2]uint32{word(0), word(1)}, rest: [2]uint32{word(2), word(3)}}
}

// fill sets out to the numbers of a variable from a sample on, which is even.
func (s source) fill(out []float64, variable, sample int) {
	for ; len(out) >= 2; sample, out = sample+2, out[2:] {
		w0, w1, w2, w3 := philox(uint32(sample/2), uint32(variable), s.rest[0], s.rest[1], s.key[0], s.key[1])
		out[0], out[1] = uniform(w0, w1), uniform(w2, w3)
	}
	if len(out) > 0 {
		w0, w1, _, _ := philox(uint32(sample/2), uint32(variable), s.rest[0], s.rest[1], s.key[0], s.key[1])
		out[0] = uniform(w0, w1)
	}
}

// uniform returns an odd multiple of 2^-53: a number between 0 and 1, and neither of them.
func uniform(high, low uint32) float64 {
	return (float64(int64(high)<<20|int64(low)>>12) + 0.5) * 0x1p-52
}
