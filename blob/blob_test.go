package blob_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/blob"
)

func TestDirKeepsBlobs(t *testing.T) {
	dir, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	for _, b := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte("xyz"), 1<<20)} {
		digest, err := dir.Put(t.Context(), b)
		require.NoError(t, err)
		require.Equal(t, blob.Digest(b), digest)
		again, err := dir.Put(t.Context(), b)
		require.NoError(t, err)
		require.Equal(t, digest, again)
		got, err := dir.Get(t.Context(), digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, got))
	}
}

func TestDirConcurrentPutsOfTheSameBytes(t *testing.T) {
	root := t.TempDir()
	dir, err := blob.Open(root)
	require.NoError(t, err)
	b := bytes.Repeat([]byte("chimera"), 10_000)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, err := dir.Put(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := dir.Get(t.Context(), blob.Digest(b))
	require.NoError(t, err)
	require.True(t, bytes.Equal(b, got))
	files, err := filepath.Glob(filepath.Join(root, "*", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1, "no temporary file is left")
}

// The first value of a store may come while another look finds its folder empty.
func TestDirConcurrentFirstPuts(t *testing.T) {
	for range 100 {
		dir, err := blob.Open(t.TempDir())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if _, err := dir.Put(t.Context(), []byte{byte(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func TestDirRefusesWhatIsNotADigest(t *testing.T) {
	dir, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	for _, digest := range []string{
		"", "sha256:", "sha256:../../../../etc/passwd", blob.Digest(nil)[:20],
		"md5:" + blob.Digest(nil)[7:], "sha256:" + string(bytes.ToUpper([]byte(blob.Digest(nil)[7:]))),
		blob.Digest([]byte("never stored")),
	} {
		_, err := dir.Get(t.Context(), digest)
		require.ErrorIs(t, err, blob.ErrNotFound, digest)
	}
}

func TestDirFindsCorruption(t *testing.T) {
	root := t.TempDir()
	dir, err := blob.Open(root)
	require.NoError(t, err)
	digest, err := dir.Put(t.Context(), []byte("the true bytes"))
	require.NoError(t, err)
	path := filepath.Join(root, digest[7:9], digest[9:])
	require.NoError(t, os.WriteFile(path, []byte("the fake bytes"), 0o600))
	_, err = dir.Get(t.Context(), digest)
	require.ErrorIs(t, err, blob.ErrCorrupt)
}

// A store whose folder is removed beneath it is not made anew, and does not say of
// its values that they never were.
func TestDirThatIsGone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store", "blobs")
	dir, err := blob.Open(root)
	require.NoError(t, err)
	digest, err := dir.Put(t.Context(), []byte("a"))
	require.NoError(t, err)
	store := filepath.Dir(root)
	require.NoError(t, os.Rename(store, store+".away"))
	_, err = dir.Get(t.Context(), digest)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, blob.ErrNotFound)
	_, err = dir.Put(t.Context(), []byte("b"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Error(t, dir.Check(t.Context()))
	require.NoDirExists(t, store)
	require.NoError(t, os.Rename(store+".away", store))
	_, err = dir.Get(t.Context(), digest)
	require.NoError(t, err)
}

// A folder that is replaced by an empty one, as where a volume is mounted no more,
// takes nothing, and does not say of its values that they never were.
func TestDirThatIsReplaced(t *testing.T) {
	for _, which := range []string{"just made", "opened", "another's"} {
		t.Run(which, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "blobs")
			dir, err := blob.Open(root)
			require.NoError(t, err)
			other, err := blob.Open(root)
			require.NoError(t, err)
			digest, err := dir.Put(t.Context(), []byte("a"))
			require.NoError(t, err)
			switch which {
			case "opened":
				dir, err = blob.Open(root)
				require.NoError(t, err)
			case "another's":
				dir = other
				_, err = dir.Get(t.Context(), digest)
				require.NoError(t, err)
			}
			require.NoError(t, os.Rename(root, root+".away"))
			require.NoError(t, os.Mkdir(root, 0o700))
			_, err = dir.Get(t.Context(), digest)
			require.Error(t, err)
			require.NotErrorIs(t, err, blob.ErrNotFound)
			_, err = dir.Put(t.Context(), []byte("b"))
			require.Error(t, err)
			require.Error(t, dir.Check(t.Context()))
			require.NoError(t, os.Remove(root), "it is empty")
			require.NoError(t, os.Rename(root+".away", root))
			_, err = dir.Get(t.Context(), digest)
			require.NoError(t, err)
			_, err = dir.Put(t.Context(), []byte("b"))
			require.NoError(t, err)
		})
	}
}

// A folder that was empty but for what a check puts there for a moment stays the same.
func TestDirThatIsChecked(t *testing.T) {
	for _, when := range []string{"opened", "checked"} {
		t.Run(when, func(t *testing.T) {
			root := t.TempDir()
			check := filepath.Join(root, ".put-123")
			begin := func() { require.NoError(t, os.WriteFile(check, []byte("another's"), 0o600)) }
			if when == "opened" {
				begin()
			}
			dir, err := blob.Open(root)
			require.NoError(t, err)
			if when == "checked" {
				begin()
			}
			require.NoError(t, dir.Check(t.Context()))
			require.NoError(t, os.Remove(check))
			require.NoError(t, dir.Check(t.Context()))
			_, err = dir.Put(t.Context(), []byte("a"))
			require.NoError(t, err)
		})
	}
}

// A blob that was damaged is repaired when it is stored again.
func TestDirRepairsWhatIsStoredAgain(t *testing.T) {
	root := t.TempDir()
	dir, err := blob.Open(root)
	require.NoError(t, err)
	good := []byte("the true bytes")
	digest, err := dir.Put(t.Context(), good)
	require.NoError(t, err)
	for _, bad := range []string{"the fake bytes", "the true", ""} {
		require.NoError(t, os.WriteFile(filepath.Join(root, digest[7:9], digest[9:]), []byte(bad), 0o600))
		_, err = dir.Put(t.Context(), good)
		require.NoError(t, err)
		b, err := dir.Get(t.Context(), digest)
		require.NoError(t, err, bad)
		require.Equal(t, good, b)
	}
}
