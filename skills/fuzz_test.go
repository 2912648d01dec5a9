package skills

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// FuzzErrorObject: what a program prints when it fails is an error object of JSON
// that has one meaning, or its last line stands for it.
func FuzzErrorObject(f *testing.F) {
	for _, s := range []string{
		`{"error":{"message":"m","details":{"a":1}}}`, ` {"error":{"message":"m"}} ` + "\n", `{"error":{"message":""}}`, `{"error":null}`, `{"error":"m"}`, `{"error":{"message":1}}`,
		`{"error":{"message":"a"},"error":{"message":"b"}}`, `{"Error":{"message":"m"}}`, `{"error":{"message":"m","details":null}}`, "\xff", `{"error":{"message":"\ud800"}}`, `[]`, `{} {}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stdout []byte) {
		message, details, err := errorObject(stdout)
		if err != nil {
			return
		}
		require.NotEmpty(t, message)
		v, err := schemas.Decode(bytes.TrimSpace(stdout))
		require.NoError(t, err)
		said, ok := v.(map[string]any)["error"].(map[string]any)
		require.True(t, ok, "%q", stdout)
		require.Equal(t, said["message"], message)
		require.LessOrEqual(t, len(details), maxDetails)
		if details != nil {
			require.True(t, json.Valid(details))
			have, err := schemas.Decode(details)
			require.NoError(t, err)
			require.Equal(t, said["details"], have)
		}
	})
}
