package config

import (
	"context"
	"os"
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
