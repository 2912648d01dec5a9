package config

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestCheckDatabase(t *testing.T) {
	const literal = "holds a password, which must be a reference to a secret"
	for text, want := range map[string]string{
		"postgres://worker@db.example.com/chimera":                        "",
		"postgresql:///chimera?host=/run/postgresql":                      "",
		"postgres://a,b:5433/x?sslmode=verify-full&sslkey=/k&passfile=/p": "",
		"postgres://h/x?require_auth=scram-sha-256":                       "",
		"postgres://me:secret@h/x":                                        literal,
		"postgres://me:@h/x":                                              literal,
		"postgres://h/x?user=me&password=secret":                          literal,
		"postgres://h/x?user=me&%70assword=secret":                        literal,
		"postgres://h/x?sslpassword=secret":                               literal,
		"postgres://h/x?SSLPassword=secret":                               literal,
		"postgres://h/x?oauth_client_secret=secret":                       literal,
		"postgres://h/x?a;password=secret":                                "is not the URL of a database",
		"postgres://h:port/x":                                             "is not the URL of a database",
		"host=h user=me":                                                  "must be a reference to a secret, not the secret",
		"host=h password=secret":                                          "must be a reference to a secret, not the secret",
		"secret":                                                          "must be a reference to a secret, not the secret",
		"postgres://h/x#password=secret":                                  "is not the URL of a database",
		"postgres://h/x?passwd=secret":                                    literal,
		"postgres://h/x?PWD=secret":                                       literal,
		"postgres://h/x?token=secret":                                     literal,
		"${env:URL}":                                                      "",
		"${env:URL}?sslmode=require":                                      "",
		"${env:BASE}/chimera":                                             "",
		"postgres://me:${env:PW}@h:${env:PORT}/x":                         "",
		"postgres://me:${env:A}${file:/b}@h/x12?sslpassword=${env:C}":     "",
		"host=h port=5432 password=${env:PW} user=me":                     "",
		"host=h password = '${env:PW}'":                                   "",
		"postgres://me:secret@${env:HOST}/x":                              literal,
		"postgres://me:12@${env:HOST}/x":                                  literal,
		"postgres://me:secret${env:PW}@h/x":                               literal,
		"postgres://${env:ME}:secret@h/x":                                 literal,
		"postgres://${env:H}/x?password=secret":                           literal,
		"postgres://${env:H}/x?password=${env:P}&password=secret":         literal,
		"${env:SCHEME}://me:secret@h/x":                                   literal,
		"${env:ME}:secret@h/x":                                            literal,
		"${env:A}s://me:secret@h/x":                                       "is not the URL of a database",
		"s${env:A}://me:secret@h/x":                                       "is not the URL of a database",
		"${env:DSN} password=secret":                                      literal,
		"${env:DSN} password='se cret'":                                   literal,
		"host=${env:H} sslpassword = secret":                              literal,
		"user=${env:U} host= password=secret":                             literal,
		"":                                                                "must be a reference to a secret, not the secret",
	} {
		got := ""
		if err := checkDatabase(text); err != nil {
			got = err.Error()
		}
		require.Equal(t, want, got, text)
	}
}

// FuzzCheckDatabase: the driver finds no password in what passes.
func FuzzCheckDatabase(f *testing.F) {
	for _, text := range []string{"postgres://u@h/x", "postgres://u:p@h/x?password=p", "postgresql://h/x?a;password=p", "postgres://u%3Ap@h/?%50assword=p&sslpassword"} {
		f.Add(text)
	}
	for _, name := range []string{"PGPASSWORD", "PGSERVICE", "PGSSLCERT", "PGSSLKEY", "PGSSLPASSWORD"} {
		f.Setenv(name, "")
	}
	f.Setenv("PGPASSFILE", os.DevNull)
	f.Fuzz(func(t *testing.T, text string) {
		if checkDatabase(text) != nil {
			return
		}
		c, err := pgconn.ParseConfigWithOptions(text, pgconn.ParseConfigOptions{GetSSLPassword: func(context.Context) string { return "" }})
		if err == nil {
			require.Empty(t, c.Password, text)
		}
	})
}

// TestSecretIsNotShown: what is wrong with a secret is said without the line that holds it.
func TestSecretIsNotShown(t *testing.T) {
	name := filepath.Join(t.TempDir(), "chimera.yaml")
	text := []byte("store: {driver: postgres, url: \"postgres://me:hunter2@${env:DB_HOST}/x\"}\n")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	_, ds := Load(name)
	require.True(t, ds.HasErrors())
	var b bytes.Buffer
	require.NoError(t, ds.WriteText(&b, map[string][]byte{name: text}, false))
	require.Contains(t, b.String(), "store.url holds a password")
	require.Contains(t, b.String(), "chimera.yaml:1:32")
	require.NotContains(t, b.String(), "hunter2")
}
