package devserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// magic begins every SQLite 3 file (sqlite.org/fileformat.html, 1.3).
const magic = "SQLite format 3\x00"

// open creates the database file's folder, locks the file, and refuses one that the
// server could not use or would misread. The server records no schema version in it and
// does not migrate it, so a marker beside it records the version that created it.
func open(file, version string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the Temporal database: %w", err)
	}
	held, err := TryLock(file + ".lock")
	if errors.Is(err, ErrLocked) {
		return nil, &DatabaseError{File: file, Reason: "is in use by another server",
			Hint: "stop that one, or choose another folder for this one"}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the Temporal database: %w", err)
	}
	if err := inspect(file, version); err != nil {
		held.Release()
		return nil, err
	}
	return held, nil
}

func inspect(file, version string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &DatabaseError{File: file, Reason: "cannot be opened (" + err.Error() + ")", Hint: moveAway(file)}
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, len(magic))
	n, err := io.ReadFull(f, head)
	switch {
	case err != nil && n == 0:
		return &DatabaseError{File: file, Reason: "is empty: its creation was cut short, or it is no file", Hint: moveAway(file)}
	case !bytes.Equal(head[:n], []byte(magic)):
		return &DatabaseError{File: file, Reason: "is not an SQLite database", Hint: moveAway(file)}
	}
	raw, err := os.ReadFile(marker(file))
	if err != nil {
		return nil // created by other means: let the server decide
	}
	made := firstLine(string(raw))
	if series(made) != series(version) {
		return &DatabaseError{File: file,
			Reason: fmt.Sprintf("was made by Temporal server %s, and this is %s, which does not migrate it", made, version),
			Hint:   "nothing was changed; use the server that made it or, " + startEmpty(file)}
	}
	return nil
}

// marker returns the file that records the version that created a database.
func marker(file string) string { return file + ".version" }

// mark records the version for a later [open].
func mark(file, version string) error {
	if err := os.WriteFile(marker(file), []byte(version+"\n"), 0o600); err != nil {
		return fmt.Errorf("keeping the version of the Temporal database: %w", err)
	}
	return nil
}

// series is major.minor, within which the database's schema does not change.
func series(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
