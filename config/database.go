package config

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// databasePattern matches texts of store.url without a reference.
const databasePattern = `^postgres(ql)?://`

var (
	errNoDatabase = errors.New("is not the URL of a database")
	errPassword   = errors.New("holds a password, which must be a reference to a secret")
)

// secretParameter matches the names of parameters that are secrets: PostgreSQL's are password,
// sslpassword, oauth_client_secret and scram_client_key.
var secretParameter = regexp.MustCompile(`(?i)(?:password|passwd|pwd|secret|scram|token)`)

// assignment matches such a parameter with its value in a connection string that is no URL.
var assignment = regexp.MustCompile(secretParameter.String() + `\w*\s*=\s*('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)`)

// checkDatabase says what is wrong with a connection string of PostgreSQL. Without a reference it
// must be a URL, since a password is easily overlooked in the other form. Nothing but references
// is a password in it, or another secret.
func checkDatabase(text string) error {
	parts, err := split(text)
	if err != nil {
		return errNoDatabase
	}
	text, reference := placeheld(parts)
	refers := func(value string) bool { return value != "" && strings.ReplaceAll(value, reference, "") == "" }
	if first := strings.TrimPrefix(text, reference); first != text && !strings.ContainsAny(text, " \t\r\n") {
		if text = "postgres" + first; !strings.HasPrefix(first, "://") {
			text = "postgres://" + reference + first
		}
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		if !strings.Contains(text, reference) {
			return written(text)
		}
		for _, m := range assignment.FindAllStringSubmatch(text, -1) {
			if !refers(strings.Trim(m[1], "'")) {
				return errPassword
			}
		}
		if strings.Contains(text, "://") {
			return errNoDatabase
		}
		return nil
	}
	u, err := url.Parse(text)
	_, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "?")
	if err != nil || strings.Contains(text, "#") || strings.Contains(rest, "://") {
		return errNoDatabase // err repeats the text
	}
	if password, ok := u.User.Password(); ok && !refers(password) {
		return errPassword
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errNoDatabase
	}
	for name, values := range query {
		for _, value := range values {
			if secretParameter.MatchString(name) && !refers(value) {
				return errPassword
			}
		}
	}
	return nil
}

// placeheld is a text in which a number stands for each reference, and that number, which its
// literal parts do not hold. Its first digit and its last differ, so that it is also not found
// across the border of a part.
func placeheld(parts []part) (text, reference string) {
	literal := ""
	for _, p := range parts {
		literal += p.literal + " "
	}
	for reference = "12"; strings.Contains(literal, reference); {
		reference = "1" + strings.Repeat("0", len(reference)-1) + "2"
	}
	for _, p := range parts {
		if p.scheme != "" {
			text += reference
		}
		text += p.literal
	}
	return text, reference
}
