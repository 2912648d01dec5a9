package discover

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// secretWords are the last words of names whose value is a secret.
var secretWords = []string{
	"accesskey", "apikey", "auth", "authorization", "bearer", "connectionstring", "cookie", "credential", "credentials", "dsn", "header",
	"headers", "jwt", "key", "passphrase", "passwd", "password", "pass", "pat", "pwd", "secret", "secretkey", "sig", "signature", "token",
}

// secretName reports whether what is called name, such as --api-key or DB_PASSWORD, is a
// secret.
func secretName(name string) bool {
	words := words(strings.TrimSpace(name))
	if len(words) == 0 || words[0] == "no" {
		return false
	}
	last := words[len(words)-1]
	if slices.Contains(secretWords, last) || len(words) > 1 && words[len(words)-2] == "connection" && last == "string" {
		return true
	}
	return slices.ContainsFunc([]string{"password", "secret", "apikey"}, func(w string) bool { return strings.HasSuffix(last, w) })
}

// words splits a name at characters that are no letters or digits, and before capitals that
// follow small letters.
func words(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if small && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		small = unicode.IsLower(r)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// prefixes begin the tokens of well-known services.
var prefixes = []string{
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_", "rk_", "pk_", "xoxb-", "xoxp-", "xoxa-", "xapp-", "AKIA", "ASIA",
	"AIza", "ya29.", "eyJ", "npm_", "pypi-", "hf_", "r8_", "dop_v1_", "shpat_", "lin_api_", "ntn_", "secret_", "tvly-", "fc-", "gsk_", "pplx-",
	"xai-", "SG.", "figd_", "ATATT", "BSA", "tal_",
}

// assigned matches a name and its value: --key=value, NAME=value, Name: value.
var assigned = regexp.MustCompile(`^-{0,2}([A-Za-z_][A-Za-z0-9_.-]*)(?:=|:\s+)(.+)$`)

// scheme matches credentials with their scheme.
var scheme = regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[^\s$]`)

// delimiters separate the parts of an argument that are looked at one by one.
const delimiters = " \t\n\r\"'`,;&|<>(){}[]"

// secretArgument reports whether an argument holds what looks like a secret: by the name
// that stands before it, by an address with credentials, by the form of well-known tokens,
// or as a long text that is no words.
func secretArgument(arg string) bool {
	if secretText(arg) {
		return true
	}
	for _, separators := range []string{"\"'`", delimiters} {
		if slices.ContainsFunc(strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(separators, r) }), secretText) {
			return true
		}
	}
	return false
}

// HoldsSecret reports whether an argument of a program, behind another one, or "", holds what looks like a
// secret. It is a guess by names and form.
func HoldsSecret(before, arg string) bool {
	return secretArgument(arg) || secretFlag(before) && !strings.HasPrefix(arg, "-")
}

func secretText(text string) bool {
	if scheme.MatchString(text) || strings.Contains(text, "PRIVATE KEY-----") {
		return true
	}
	if m := assigned.FindStringSubmatch(text); m != nil {
		if secretName(m[1]) {
			return true
		}
		text = m[2]
	}
	if strings.ContainsAny(text, delimiters) {
		return false // its parts are looked at
	}
	if before, rest, ok := strings.Cut(text, "://"); ok && before != "" {
		is := secretToken
		if strings.HasPrefix(rest, "/") { // it has no host: it names a file
			is = secretNamePart
		}
		return secretAddress(text) || slices.ContainsFunc(strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("/?&=#:@", r) }), is)
	}
	is := secretToken
	if strings.ContainsAny(text, `/\`) || fileName.MatchString(text) {
		is = secretNamePart
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(`/\=:@?#`, r) }) {
		if is(part) {
			return true
		}
	}
	// The base64 of a secret holds slashes too.
	local := strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "~") || strings.HasPrefix(text, "@") || strings.ContainsAny(text, `:\`)
	return !local && is(strings.ReplaceAll(text, "/", "-"))
}

// secretAddress reports whether an address holds credentials, or something that does not
// parse and may.
func secretAddress(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return true
	}
	if u.User != nil {
		_, password := u.User.Password()
		web := strings.HasSuffix(u.Scheme, "http") || strings.HasSuffix(u.Scheme, "https")
		if password || web && u.User.Username() != "git" {
			return true
		}
	}
	for name := range u.Query() {
		if secretName(name) || name == "code" {
			return true
		}
	}
	return false
}

const longToken = 20

// secretToken reports whether a text without delimiters has the form of a token.
func secretToken(text string) bool { return tokenUnless(text, nil) }

// secretNamePart reports the same of a part of a path, in which numbers of any length may stand.
func secretNamePart(text string) bool { return tokenUnless(text, numbered) }

var (
	// fileName matches the name of a file with a suffix.
	fileName = regexp.MustCompile(`^[^.].*\.[A-Za-z][A-Za-z0-9]{0,3}$`)
	// numbered matches a number, also with a few letters before it, and a time such as
	// 20261105T123456Z. Next to no random token has only such parts.
	numbered = regexp.MustCompile(`^(?:[A-Za-z]{0,3}[0-9]+|[0-9]{8}T[0-9]{4,9}Z?)$`)
)

// tokenUnless reports whether a text has the form of a token. Parts that match harmless, which may be
// nil, do not count.
func tokenUnless(text string, harmless *regexp.Regexp) bool {
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(text, prefix); ok && len(rest) >= 12 && (!wordy(rest, nil) || !strings.ContainsAny(rest, "-_.")) {
			return true
		}
	}
	return len(text) >= longToken && !wordy(text, harmless)
}

// wordy reports whether a text is made of words and short numbers, as names of packages,
// models and files are, and of what matches harmless, which may be nil.
func wordy(text string, harmless *regexp.Regexp) bool {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("-_.+~", r) }) {
		if harmless != nil && harmless.MatchString(part) {
			continue
		}
		letters, digits, turns := 0, 0, 0
		small := false
		for _, r := range part {
			switch {
			case unicode.IsDigit(r):
				digits++
			case unicode.IsLetter(r):
				letters++
				if small && unicode.IsUpper(r) {
					turns++
				}
			default:
				return false
			}
			small = unicode.IsLower(r)
		}
		switch {
		case letters == 0 && digits <= 8:
		case digits == 0 && letters <= 32 && turns*5 <= letters:
		case letters+digits <= 6:
		default:
			return false
		}
	}
	return true
}
