package adversary

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/postgres"
)

// export is an export of the deployment, in a folder of its own.
func (d *Deployment) export(t testing.TB) string {
	t.Helper()
	var dir string
	d.On(t, func(c *Copy) {
		l, err := c.open(t.Context(), postgres.DefaultRoles.Reader)
		require.NoError(t, err)
		dir = c.dir
		_, err = audit.Export(t.Context(), l, dir)
		require.NoError(t, errors.Join(err, l.Close()))
	})
	return dir
}

// bent is an attack on the files of an export: change returns those of a forged one.
func (d *Deployment) bent(thief Thief, about, name, from string, quorum int, change func(t testing.TB, dir string)) *Attack {
	return &Attack{Thief: thief, Class: FileBent, About: about, Name: name, Do: func(t testing.TB, d *Deployment) (Outcome, string) {
		dir := filepath.Join(t.TempDir(), "export")
		require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
		change(t, dir)
		r, err := audit.Verify(dir, d.Trust(quorum), nil)
		if err != nil {
			return Found, err.Error()
		}
		if !r.OK {
			return Found, fmt.Sprintf("%s: %s", r.Problems[0].Kind, r.Problems[0].Message)
		}
		was, err := audit.Verify(from, d.Trust(quorum), nil)
		require.NoError(t, err)
		if says := news(&Seen{Report: was}, &Seen{Report: r}); says != "" {
			return Warned, says
		}
		return Unseen, "it verifies"
	}}
}

// exported are the files of an export that are signed over.
var exported = []string{audit.EntriesFile, audit.BodiesFile, audit.EvidenceFile, audit.CheckpointFile}

// exportAttacks are those on the disk of an export, without a key.
func (d *Deployment) exportAttacks(from string, random *mathrand.Rand) (all []*Attack) {
	for _, file := range exported {
		rewrite := func(name string, change func(lines [][]byte) [][]byte) {
			all = append(all, d.bent(ExportDisk, file, name, from, 1, func(t testing.TB, dir string) {
				path := filepath.Join(dir, file)
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, bytes.Join(change(bytes.SplitAfter(raw, []byte("\n"))), nil), 0o600))
			}))
		}
		at, bit := random.IntN(1<<20), byte(1)<<random.IntN(8)
		rewrite("a bit", func(l [][]byte) [][]byte {
			whole := bytes.Join(l, nil)
			whole[at%len(whole)] ^= bit
			return [][]byte{whole}
		})
		rewrite("a line dropped", func(l [][]byte) [][]byte { return slices.Delete(l, at%(len(l)-1), at%(len(l)-1)+1) })
		rewrite("a line doubled", func(l [][]byte) [][]byte {
			i := at % (len(l) - 1)
			return slices.Insert(l, i, l[i])
		})
		rewrite("lines exchanged", func(l [][]byte) [][]byte {
			l[0], l[len(l)-2] = l[len(l)-2], l[0]
			return l
		})
		rewrite("the tail cut off", func(l [][]byte) [][]byte { return l[:len(l)/2] })
		rewrite("emptied", func([][]byte) [][]byte { return nil })
		rewrite("newlines", func(l [][]byte) [][]byte { return append(l, bytes.Repeat([]byte("\n"), 1000)) })
		for name, make := range map[string]func(path string) error{
			"removed":  func(string) error { return nil },
			"a link":   func(path string) error { return os.Symlink("/etc/passwd", path) },
			"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		} {
			all = append(all, d.bent(ExportDisk, file, name, from, 1, func(t testing.TB, dir string) {
				require.NoError(t, os.Remove(filepath.Join(dir, file)))
				require.NoError(t, make(filepath.Join(dir, file)))
			}))
		}
	}
	return all
}

// blobAttacks are those on the disk of large values.
func blobAttacks() (all []*Attack) {
	for name, change := range map[string]func(path string, raw []byte, other string) error{
		"a bit": func(path string, raw []byte, _ string) error {
			raw[len(raw)/2] ^= 1
			return os.WriteFile(path, raw, 0o600)
		},
		"cut off":   func(path string, raw []byte, _ string) error { return os.WriteFile(path, raw[:len(raw)/2], 0o600) },
		"longer":    func(path string, raw []byte, _ string) error { return os.WriteFile(path, append(raw, 0), 0o600) },
		"emptied":   func(path string, _ []byte, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"removed":   func(path string, _ []byte, _ string) error { return os.Remove(path) },
		"exchanged": func(path string, _ []byte, other string) error { return os.Rename(other, path) },
		"a folder": func(path string, _ []byte, _ string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
	} {
		all = append(all, &Attack{Thief: BlobDisk, Class: FileBent, About: "blob", Name: name, Do: func(t testing.TB, _ *Deployment) (Outcome, string) {
			root := t.TempDir()
			store, err := blob.Open(root)
			require.NoError(t, err)
			raw := []byte(strings.Repeat(rand.Text(), 10))
			digest, err := store.Put(t.Context(), raw)
			require.NoError(t, err)
			other, err := store.Put(t.Context(), []byte("another"))
			require.NoError(t, err)
			paths := map[string]string{}
			require.NoError(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
				for _, d := range []string{digest, other} {
					if err == nil && !e.IsDir() && strings.HasSuffix(d, filepath.Base(path)) || err == nil && !e.IsDir() && strings.HasSuffix(path, strings.TrimPrefix(d, "sha256:")) {
						paths[d] = path
					}
				}
				return err
			}))
			require.Len(t, paths, 2)
			require.NoError(t, change(paths[digest], bytes.Clone(raw), paths[other]))
			got, err := store.Get(t.Context(), digest)
			if err != nil {
				return Refused, err.Error()
			}
			if bytes.Equal(got, raw) {
				return Refused, "the value is as it was"
			}
			return Unseen, "another value is read"
		}})
	}
	return all
}

// workerAttacks are those on the folder in which a worker remembers the last statement of the
// admins: begins reports whether a guardian begins with it.
func (d *Deployment) workerAttacks() (all []*Attack) {
	for name, content := range map[string]string{
		"garbage": "garbage", "emptied": "", "of another statement": `{"statement":3,"digest":"` + d.Plan + `"}`,
		"of a statement that is not there": `{"statement":300,"digest":"` + d.Plan + `"}`, "of none": `{"statement":-1,"digest":"x"}`,
	} {
		all = append(all, &Attack{Thief: WorkerDisk, Class: FileBent, About: "seen", Name: name, Do: func(t testing.TB, d *Deployment) (o Outcome, says string) {
			d.On(t, func(c *Copy) {
				file := filepath.Join(t.TempDir(), "seen")
				require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
				o, says = c.starts(t, file)
			})
			return o, says
		}})
	}
	return append(all, &Attack{Thief: WorkerDisk, Class: FileBent, About: "seen", Name: "removed", Do: func(t testing.TB, d *Deployment) (o Outcome, says string) {
		d.On(t, func(c *Copy) { o, says = c.starts(t, filepath.Join(t.TempDir(), "seen")) })
		return o, says
	}})
}

// starts reports whether a worker with the role effects starts on the copy, with a file in which it remembers.
func (c *Copy) starts(t testing.TB, file string) (Outcome, string) {
	t.Helper()
	o := c.of(t, host.RoleEffects)
	o.Store.URL, o.Seen = c.as(postgres.DefaultRoles.Effects), file
	h, err := host.New(t.Context(), o)
	if err != nil {
		return Refused, err.Error()
	}
	require.NoError(t, h.Close())
	return Unseen, "a worker starts with it"
}
