package host

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"chimera.ai/engine/store"
)

// databaseFile is a kind of file that the driver of PostgreSQL reads: the key of connection strings and the
// variable of the environment that name it, and where in the home folder it is otherwise.
type databaseFile struct {
	key, variable, home string
	// secret: it holds one, and is for the worker alone. By the others the worker knows the server, and the
	// server the worker.
	secret bool
}

var databaseKinds = []databaseFile{
	{"sslkey", "PGSSLKEY", ".postgresql/postgresql.key", true},
	{"passfile", "PGPASSFILE", ".pgpass", true},
	{"servicefile", "PGSERVICEFILE", ".pg_service.conf", true},
	{"sslcert", "PGSSLCERT", ".postgresql/postgresql.crt", false},
	{"sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt", false},
}

// databaseFiles returns the files that the driver of PostgreSQL reads, with secrets and without. The driver
// does not say which it reads. What a service file names is not among them.
func databaseFiles(o store.Options) (private, relied []string) {
	if o.Driver != store.Postgres || o.URL == "" {
		return nil, nil
	}
	said := databaseSettings(o.URL)
	for _, kind := range databaseKinds {
		file, ok := said[kind.key]
		if !ok {
			file = os.Getenv(kind.variable)
		}
		if home, err := os.UserHomeDir(); file == "" && err == nil {
			file = filepath.Join(home, kind.home)
			if _, err := os.Stat(file); errors.Is(err, fs.ErrPermission) {
				continue // the driver cannot reach it, either
			}
		}
		switch {
		case kind.secret:
			private = append(private, file)
		case file != "system": // the authorities of the system
			relied = append(relied, file)
		}
	}
	return named(private), named(relied)
}

// settingOf finds a setting in a connection string that is no URL.
var settingOf = regexp.MustCompile(`(?:^|\s)(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s]+)`)

// databaseSettings reads a connection string of PostgreSQL, which is a URL or a list of settings.
func databaseSettings(text string) map[string]string {
	all := map[string]string{}
	if strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://") {
		if u, err := url.Parse(text); err == nil { // else the driver cannot read it, either
			for key, values := range u.Query() {
				all[key] = values[0]
			}
		}
		return all
	}
	for _, m := range settingOf.FindAllStringSubmatch(text, -1) {
		value := m[2]
		if text, ok := strings.CutPrefix(value, "'"); ok {
			value = regexp.MustCompile(`\\(.)`).ReplaceAllString(strings.TrimSuffix(text, "'"), "$1")
		}
		all[m[1]] = value
	}
	return all
}
