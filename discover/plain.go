package discover

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// harmless are variables whose short values say how a program runs, and nothing secret.
var harmless = []string{
	"ENVIRONMENT", "FORCE_COLOR", "LANG", "LANGUAGE", "LC_ALL", "LOGLEVEL", "LOG_FORMAT", "LOG_LEVEL", "NODE_ENV", "NO_COLOR", "PORT",
	"PYTHONIOENCODING", "PYTHONUNBUFFERED", "RUST_LOG", "TZ",
}

// doubtful are parts of names whose value may be a secret of any form, such as a number.
var doubtful = []string{
	"account", "auth", "card", "cert", "code", "cookie", "cred", "cvc", "cvv", "iban", "jwt", "key", "licen", "login", "nonce", "otp", "pass", "phone",
	"pin", "private", "pwd", "salt", "secret", "seed", "sign", "ssn", "token", "user",
}

var (
	// setting matches the values that harmless variables may have.
	setting = regexp.MustCompile(`^[A-Za-z0-9_.:/+=,-]{1,40}$`)
	// small matches numbers that are too short for a secret.
	small = regexp.MustCompile(`^-?[0-9]{1,7}(?:\.[0-9]{1,3})?$`)
	// switched matches booleans.
	switched = regexp.MustCompile(`^(?i:true|false|yes|no|on|off)$`)
)

// maxPath bounds the paths that are looked for.
const maxPath = 1024

// plain says what a literal value of a variable is that plainly is no secret, such as "a number", or
// returns "". In doubt it is one.
func plain(name, value string) string {
	lower := strings.ToLower(name)
	if secretName(name) || slices.ContainsFunc(words(name), func(w string) bool { return slices.Contains(secretWords, w) }) ||
		slices.ContainsFunc(doubtful, func(part string) bool { return strings.Contains(lower, part) }) {
		return ""
	}
	switch {
	case hidden(value) || strings.ContainsAny(value, "$\n\t") || secretArgument(value):
	case switched.MatchString(value):
		return "a boolean"
	case small.MatchString(value):
		return "a number"
	case slices.Contains(harmless, strings.ToUpper(name)) && setting.MatchString(value):
		return "a setting that is no secret"
	case len(value) <= maxPath && filepath.IsAbs(value) && filepath.Clean(value) == strings.TrimRight(value, string(filepath.Separator)):
		if _, err := os.Stat(value); err == nil {
			return "the path of a file or folder that is here"
		}
	}
	return ""
}
