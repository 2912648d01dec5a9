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

// fileKeys finds the files with secrets that a connection string of PostgreSQL names, in its two forms.
var fileKeys = regexp.MustCompile(`(?:^|[\s?&])(sslkey|passfile|servicefile)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)`)

// databaseFiles returns the files with secrets that the driver of PostgreSQL reads: those that the
// connection string or the environment names, and otherwise those of the home folder.
func databaseFiles(o store.Options) (all []string) {
	if o.Driver != store.Postgres || o.URL == "" {
		return nil
	}
	files := map[string]string{"sslkey": os.Getenv("PGSSLKEY"), "passfile": os.Getenv("PGPASSFILE"), "servicefile": os.Getenv("PGSERVICEFILE")}
	if home, err := os.UserHomeDir(); err == nil {
		for key, name := range map[string]string{"sslkey": ".postgresql/postgresql.key", "passfile": ".pgpass", "servicefile": ".pg_service.conf"} {
			file := filepath.Join(home, name)
			if _, err := os.Stat(file); files[key] == "" && !errors.Is(err, fs.ErrPermission) { // what the driver cannot reach, either
				files[key] = file
			}
		}
	}
	for _, m := range fileKeys.FindAllStringSubmatch(o.URL, -1) {
		value := m[2]
		if text, ok := strings.CutPrefix(value, "'"); ok {
			value = regexp.MustCompile(`\\(.)`).ReplaceAllString(strings.TrimSuffix(text, "'"), "$1")
		} else if text, err := url.QueryUnescape(value); err == nil && strings.Contains(o.URL, "://") {
			value = text
		}
		files[m[1]] = value
	}
	for _, file := range files {
		all = append(all, file)
	}
	return named(all)
}
