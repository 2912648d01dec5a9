package payload_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// away is a store that is not there.
type away struct{ blob.Store }

func (away) Put(context.Context, []byte) (string, error) { return "", errors.New("away") }
func (away) Get(context.Context, string) ([]byte, error) { return nil, errors.New("away") }

func isUnavailable(t *testing.T, err error) {
	t.Helper()
	var e *contract.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, contract.StoreUnavailable, e.Kind)
}

// TestOutputs: the output of a run is read as it was kept, for its own workflow
// alone; small ones need no store.
func TestOutputs(t *testing.T) {
	small := json.RawMessage(`{"secret":"hello","n":1.50}`)
	noise := make([]byte, 40_000) // does not become small
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	large := json.RawMessage(`"` + hex.EncodeToString(noise) + `"`)
	packed := json.RawMessage(`"` + strings.Repeat("x", 200_000) + `"`)
	for name, s := range map[string]payload.Sealing{"plain": {}, "compressed": {Compress: true}, "sealed": sealed(t, "a")} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			outputs := payload.NewOutputs(store, s, "ns", false)
			for what, output := range map[string]json.RawMessage{"small": small, "large": large, "packed": packed} {
				kept, err := outputs.Keep(t.Context(), "run-1", output)
				require.NoError(t, err, what)
				require.LessOrEqual(t, len(kept), payload.Threshold)
				require.Equal(t, s.Keys == nil && what == "small", bytes.Contains(kept, []byte("hello")), "%s", what)
				back, err := outputs.Give(t.Context(), "run-1", kept)
				require.NoError(t, err, what)
				require.Equal(t, string(output), string(back))

				for _, other := range []*payload.Outputs{outputs, payload.NewOutputs(store, s, "other", false)} {
					workflow := "run-2"
					if other != outputs {
						workflow = "run-1"
					}
					_, err := other.Give(t.Context(), workflow, kept)
					require.ErrorIs(t, err, payload.ErrRefused, what)
				}
				inStore := what == "large" || what == "packed" && !s.Compress
				absent := payload.NewOutputs(away{}, s, "ns", false)
				_, err = absent.Keep(t.Context(), "run-1", output)
				if inStore {
					isUnavailable(t, err)
					_, err = absent.Give(t.Context(), "run-1", kept)
					isUnavailable(t, err)
					_, err = payload.NewOutputs(open(t), s, "ns", false).Give(t.Context(), "run-1", kept)
					isUnavailable(t, err) // it may come back
				} else {
					require.NoError(t, err, "it needs no store")
				}
			}

			// No payload of the workflow is taken for an output, nor an output for one.
			p, err := at(t, s, inWorkflow).ToPayload(contract.Outcome{Input: "x"})
			require.NoError(t, err)
			raw, err := proto.Marshal(p)
			require.NoError(t, err)
			for _, kept := range [][]byte{nil, {'p'}, {'x', 1}, append([]byte{'p'}, raw...), append([]byte{'p'}, "no protobuf"...)} {
				_, err = outputs.Give(t.Context(), "run-1", kept)
				require.ErrorIs(t, err, payload.ErrRefused, "%q", kept)
			}
			kept, err := outputs.Keep(t.Context(), "run-1", small)
			require.NoError(t, err)
			var moved commonpb.Payload
			require.NoError(t, proto.Unmarshal(kept[1:], &moved))
			var back contract.Outcome
			require.ErrorIs(t, at(t, s, inActivity).FromPayload(&moved, &back), payload.ErrRefused)
			require.ErrorIs(t, at(t, s, inWorkflow).FromPayload(&moved, &back), payload.ErrRefused)
		})
	}
	plain, err := payload.NewOutputs(open(t), payload.Sealing{}, "ns", false).Keep(t.Context(), "run-1", small)
	require.NoError(t, err)
	strict := sealed(t, "a")
	_, err = payload.NewOutputs(open(t), strict, "ns", false).Give(t.Context(), "run-1", plain)
	require.ErrorIs(t, err, payload.ErrRefused)
	strict.AcceptPlain = true
	_, err = payload.NewOutputs(open(t), strict, "ns", false).Give(t.Context(), "run-1", plain)
	require.NoError(t, err)
	kept, err := payload.NewOutputs(open(t), sealed(t, "a"), "ns", false).Keep(t.Context(), "run-1", small)
	require.NoError(t, err)
	_, err = payload.NewOutputs(open(t), sealed(t, "b"), "ns", false).Give(t.Context(), "run-1", kept)
	isUnavailable(t, err) // another process has the key
}
