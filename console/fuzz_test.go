package console_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/console"
	"chimera.ai/engine/payload"
)

// FuzzCodec: whatever is sent to the endpoint, the answer is one that is meant,
// short where it is a refusal, and payloads where it is none; without the token
// nothing is read.
func FuzzCodec(f *testing.F) {
	// The same key in every process that shares the corpus.
	ring, err := payload.ParseKeys([]string{"k1:" + strings.Repeat("0123456789abcdef", 4)})
	require.NoError(f, err)
	dir, err := blob.Open(f.TempDir())
	require.NoError(f, err)
	handler, err := console.Codec{Token: token, Origins: []string{origin}, Keys: ring, Blobs: dir}.Handler()
	require.NoError(f, err)
	s := &stand{sealing: payload.Sealing{Keys: ring, Compress: true}, blobs: dir}
	plain := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"plain"`)}
	seed := func(ps ...*commonpb.Payload) {
		b, err := protojson.Marshal(&commonpb.Payloads{Payloads: ps})
		require.NoError(f, err)
		f.Add(b, true)
		f.Add(b, false)
	}
	c := converter.WithDataConverterSerializationContext(payload.NewConverter(payload.NewPlans(s.blobs, 0), s.sealing),
		converter.ActivitySerializationContext{Namespace: "ns", WorkflowID: "run", ActivityType: "files/read"})
	for _, value := range []any{"small", strings.Repeat("large ", 10_000), nil} {
		p, err := c.ToPayload(value)
		require.NoError(f, err)
		seed(p, plain)
	}
	seed(&commonpb.Payload{Data: []byte(`{"driverName":"chimera-blob","claimData":{"digest":"sha256:` + strings.Repeat("0", 64) + `"}}`), Metadata: map[string][]byte{
		"encoding": []byte("json/protobuf"), "messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference"),
	}})
	for _, text := range []string{``, `{}`, `null`, `[]`, `{"payloads":[null]}`, `{"payloads":[{}]}`, `{"payloads":[{"metadata":{"encoding":"!"}}]}`, `{"payloads":[{"metadata":{"encoding":"YmluYXJ5L2NoaW1lcmEtc2VhbGVk"}}]}`} {
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, download bool) {
		path := console.CodecDecode
		if download {
			path = "/codec/download"
		}
		for _, shown := range []string{token, "wrong"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+shown)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			if shown != token {
				require.Equal(t, http.StatusUnauthorized, w.Code)
				continue
			}
			require.NotContains(t, w.Body.String(), strings.Repeat("0123456789abcdef", 4))
			if w.Code != http.StatusOK {
				require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, w.Code, "%s", w.Body)
				require.Less(t, w.Body.Len(), 2000)
				continue
			}
			var asked, opened commonpb.Payloads
			require.NoError(t, protojson.Unmarshal(body, &asked))
			require.NoError(t, protojson.Unmarshal(w.Body.Bytes(), &opened))
			require.Len(t, opened.GetPayloads(), len(asked.GetPayloads()))
		}
	})
}
