package payload_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// TestValues: whatever an outcome holds, little of it is left, and its own workflow
// gets all of it back, byte for byte.
func TestValues(t *testing.T) {
	noise := func(seed byte, n int) contract.Value {
		b := make([]byte, n/2)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
		return contract.Value(`"` + hex.EncodeToString(b) + `"`)
	}
	many := make([]contract.Value, 500)
	for i := range many {
		many[i] = noise(byte(i), 400)
	}
	for what, values := range map[string][]contract.Value{
		"none":                {},
		"small":               {contract.Value(`{"x":1.50}`), nil, contract.Value(`"<&>"`)},
		"one large":           {nil, noise(1, 100_000), contract.Value(`1`)},
		"what becomes small":  {contract.Value(`"` + strings.Repeat("x", 8<<20) + `"`)},
		"many small":          many,
		"both":                {noise(2, 20_000), noise(3, 9_000), nil, noise(4, 9_000), contract.Value(`"\u003c<"`)},
		"like a reference":    {contract.Value(`{"$stored":"sha256:` + strings.Repeat("0", 64) + `"}`), contract.Value(`2`)},
		"large and like one":  {contract.Value(`{"$stored":` + string(noise(5, 20_000)) + `}`)},
		"just below":          {contract.Value(`"` + strings.Repeat("y", payload.Threshold-3) + `"`)},
		"at the threshold":    {contract.Value(`"` + strings.Repeat("y", payload.Threshold-2) + `"`)},
		"together just below": {noise(6, payload.Threshold/2), noise(7, payload.Threshold/2-10)},
	} {
		for name, s := range map[string]payload.Sealing{"plain": {}, "compressed": {Compress: true}, "sealed": sealed(t, "a")} {
			t.Run(what+" "+name, func(t *testing.T) {
				store := open(t)
				v := payload.NewValues(store, s, "ns")
				kept := slices.Clone(values)
				require.NoError(t, v.Keep(t.Context(), "run-1", kept, false))
				left, stored := 0, 0
				for i := range kept {
					require.Equal(t, values[i] == nil, kept[i] == nil)
					if bytes.HasPrefix(kept[i], []byte(`{"$stored":`)) {
						stored++
						require.Less(t, len(kept[i]), 120)
					} else {
						left += len(kept[i])
					}
				}
				require.Less(t, left, payload.Threshold)
				back := func(v *payload.Values, workflow string) ([]contract.Value, error) {
					given := slices.Clone(kept)
					all := make([]*contract.Value, len(given))
					for i := range given {
						all[i] = &given[i]
					}
					return given, v.Give(t.Context(), workflow, all...)
				}
				given, err := back(v, "run-1")
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("%q", values), fmt.Sprintf("%q", given))
				if stored == 0 {
					require.NoError(t, payload.NewValues(away{}, s, "ns").Keep(t.Context(), "run-1", slices.Clone(values), false))
					return
				}
				isUnavailable(t, payload.NewValues(away{}, s, "ns").Keep(t.Context(), "run-1", slices.Clone(values), false))
				_, err = back(payload.NewValues(away{}, s, "ns"), "run-1")
				isUnavailable(t, err)
				_, err = back(payload.NewValues(open(t), s, "ns"), "run-1") // it may come back
				isUnavailable(t, err)
				_, err = back(v, "run-2")
				require.ErrorIs(t, err, payload.ErrRefused)
				_, err = back(payload.NewValues(store, s, "other"), "run-1")
				require.ErrorIs(t, err, payload.ErrRefused)
			})
		}
	}
}

// TestLeanValues: less is left of an outcome that has to be lean.
func TestLeanValues(t *testing.T) {
	v := payload.NewValues(open(t), payload.Sealing{}, "ns")
	for size, want := range map[int]bool{100: false, 300: true, 10_000: true} {
		value := contract.Value(`"` + strings.Repeat("x", size) + `"`)
		kept := []contract.Value{nil, value}
		require.NoError(t, v.Keep(t.Context(), "run-1", kept, true))
		require.Nil(t, kept[0])
		require.Equal(t, want, len(kept[1]) != len(value))
		require.NoError(t, v.Give(t.Context(), "run-1", &kept[1]))
		require.Equal(t, string(value), string(kept[1]))
	}
}

// slow is a store that takes its time.
type slow struct {
	blob.Store
	each      time.Duration
	now, most atomic.Int32
}

func (s *slow) takes(ctx context.Context) error {
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	select {
	case <-time.After(s.each):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) Put(ctx context.Context, b []byte) (string, error) {
	if err := s.takes(ctx); err != nil {
		return "", err
	}
	return s.Store.Put(ctx, b)
}

func (s *slow) Get(ctx context.Context, digest string) ([]byte, error) {
	if err := s.takes(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, digest)
}

// TestValuesOfASlowStore: several values take little longer than one, and what takes
// too long is a store that is away.
func TestValuesOfASlowStore(t *testing.T) {
	dir := open(t)
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: dir, each: 4 * time.Second}
		v := payload.NewValues(store, payload.Sealing{}, "ns")
		values := make([]contract.Value, 5)
		for i := range values {
			values[i] = contract.Value(`"` + strings.Repeat(strconv.Itoa(i), 20_000) + `"`)
		}
		values = append(values, values[0][:9000:9000], values[1][:9000:9000])
		values[5], values[6] = append(values[5], '"'), append(values[6], '"')
		bounded, stop := context.WithTimeout(t.Context(), 9*time.Second)
		defer stop()
		kept := slices.Clone(values)
		require.NoError(t, v.Keep(bounded, "run-1", kept, false))
		given, all := slices.Clone(kept), make([]*contract.Value, len(kept))
		for i := range given {
			all[i] = &given[i]
		}
		isUnavailable(t, v.Give(bounded, "run-1", all...))
		given = slices.Clone(kept)
		for i := range given {
			all[i] = &given[i]
		}
		bounded, stop = context.WithTimeout(t.Context(), 9*time.Second)
		defer stop()
		require.NoError(t, v.Give(bounded, "run-1", all...))
		require.Equal(t, values, given)
		require.EqualValues(t, 4, store.most.Load())
	})
}

// TestValuesTogether: a request brings what a worker has memory for, even where it is
// one value again and again.
func TestValuesTogether(t *testing.T) {
	v := payload.NewValues(open(t), payload.Sealing{}, "ns")
	kept := []contract.Value{contract.Value(`"` + strings.Repeat("x", 16<<20) + `"`)}
	require.NoError(t, v.Keep(t.Context(), "run-1", kept, false))
	give := func(n int) error {
		given := slices.Repeat(kept, n)
		all := make([]*contract.Value, n)
		for i := range given {
			all[i] = &given[i]
		}
		return v.Give(t.Context(), "run-1", all...)
	}
	require.NoError(t, give(15))
	var e *contract.Error
	require.ErrorAs(t, give(1000), &e)
	require.Equal(t, contract.TooLarge, e.Kind)
}

// TestValuesOfOthers: nothing else that is stored for a workflow is taken for a value,
// and no reference says more than there is.
func TestValuesOfOthers(t *testing.T) {
	for name, s := range map[string]payload.Sealing{"plain": {}, "sealed": sealed(t, "a")} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			v := payload.NewValues(store, s, "ns")
			large := contract.Value(`"` + strings.Repeat("x", 100_000) + `"`)
			kept, err := payload.NewOutputs(store, payload.Sealing{Keys: s.Keys}, "ns", false).Keep(t.Context(), "run-1", large)
			require.NoError(t, err)
			refused := func(reference string) {
				t.Helper()
				value := contract.Value(reference)
				require.ErrorIs(t, v.Give(t.Context(), "run-1", &value), payload.ErrRefused)
			}
			refused(`{"$stored":"` + string(kept[1:]) + `"}`)
			values := []contract.Value{large}
			require.NoError(t, v.Keep(t.Context(), "run-1", values, false))
			one := strings.TrimSuffix(string(values[0]), "}")
			refused(one + `,"at":1}`)
			refused(one + `,"at":-1}`)
			refused(one)
			refused(`{"$stored":7}`)
			values = []contract.Value{large[:10_000], large[:10_000]}
			for i := range values {
				values[i] = contract.Value(string(values[i]) + `"`)
			}
			require.NoError(t, v.Keep(t.Context(), "run-1", values, false))
			refused(strings.Replace(string(values[1]), `"at":2`, `"at":3`, 1))
			refused(strings.Replace(string(values[1]), `"at":2`, `"at":-2`, 1))
			strange := contract.Value(`{"$stored":"../../etc/passwd"}`)
			require.Error(t, v.Give(t.Context(), "run-1", &strange))
		})
	}
}
