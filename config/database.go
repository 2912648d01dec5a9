package config

import (
	"errors"
	"net/url"
	"strings"
)

// databasePattern matches texts of store.url without a reference.
const databasePattern = `^postgres(ql)?://`

// checkDatabase says what is wrong with a connection string of PostgreSQL that holds no
// reference: it must be a URL, since a password is easily overlooked in the other form, and
// hold no secret.
func checkDatabase(text string) error {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return written(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is not the URL of a database") // err repeats it
	}
	if _, ok := u.User.Password(); ok {
		return errors.New("holds a password, which must be a reference to a secret")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("is not the URL of a database")
	}
	for name := range query {
		// PostgreSQL's are password, sslpassword, oauth_client_secret and scram_client_key.
		for _, secret := range []string{"password", "secret", "scram"} {
			if strings.Contains(strings.ToLower(name), secret) {
				return errors.New("holds a password, which must be a reference to a secret")
			}
		}
	}
	return nil
}
