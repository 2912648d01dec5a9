package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/dial"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/trust/pkcs11"
)

// set sets a key to a value of the file.
func set[T any](l *loader, k key[T], into *T, v *syntax.Value, name string) {
	wrong := func(at *syntax.Value, want string) {
		l.report(diag.ConfigValue, at.Range(), fmt.Sprintf("%s is a %s, but must be %s", name, at.Kind, want), k.doc)
	}
	switch k.sort {
	case text, path, command, choice, duration, period, secret, private:
		if v.Kind != syntax.String {
			wrong(v, article(k.sort))
			return
		}
	case integer:
		if v.Kind != syntax.Number {
			wrong(v, article(k.sort))
			return
		}
	case boolean:
		if v.Kind != syntax.Bool {
			wrong(v, article(k.sort))
			return
		}
	case texts, choices, paths, networks:
		if v.Kind != syntax.List {
			wrong(v, article(k.sort))
			return
		}
		if len(v.Items) > maxTexts {
			l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s has %d items; at most %d are possible", name, len(v.Items), maxTexts), "")
			return
		}
		list := make([]string, 0, len(v.Items))
		for _, item := range v.Items {
			if item.Kind != syntax.String {
				wrong(item, "a list of strings (quote what looks like a number)")
				return
			}
			if !l.plain(item, name) || !l.fits(k.check, item, name, k.doc) {
				return
			}
			list = append(list, item.Text)
		}
		if err := assign(k, into, strings.Join(list, ","), list, l.dir); err != nil {
			l.report(diag.ConfigValue, v.Range(), name+" "+err.Error(), k.doc)
		}
		return
	case references:
		if v.Kind != syntax.List {
			wrong(v, article(k.sort))
			return
		}
		if len(v.Items) > maxTexts {
			l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s has %d items; at most %d are possible", name, len(v.Items), maxTexts), "")
			return
		}
		var list []Secret
		for _, item := range v.Items {
			if item.Kind != syntax.String {
				wrong(item, article(k.sort))
				return
			}
			if !l.references(item, name, written) {
				return
			}
			list = append(list, Secret(item.Text))
		}
		*k.at(into).(*[]Secret) = list
		return
	case secrets:
		l.secrets(v, name, variableName, "a variable", *k.at(into).(*map[string]Secret))
		return
	case headers:
		l.secrets(v, name, headerName, "a header", *k.at(into).(*map[string]Secret))
		return
	}
	if k.sort == secret || k.sort == private {
		check := k.check
		if check == nil {
			check = written
		}
		if k.sort == private && pkcs11.IsURI(v.Text) {
			if err := checkURI(v.Text); err != nil {
				l.report(diag.ConfigValue, v.Range(), name+" "+err.Error(), k.doc)
				return
			}
		} else if !l.references(v, name, check) {
			return
		}
		*k.at(into).(*Secret) = Secret(v.Text)
		return
	}
	if v.Kind == syntax.String && (!l.plain(v, name) || !l.fits(k.check, v, name, k.doc)) {
		return
	}
	if err := assign(k, into, v.Text, nil, l.dir); err != nil {
		l.report(diag.ConfigValue, v.Range(), name+" "+err.Error(), k.doc)
	}
}

func article(s sort) string {
	switch s {
	case text, path, command, choice:
		return "a string"
	case secret:
		return "a string with a reference such as ${env:NAME}"
	case private:
		return "a string with a reference such as ${env:NAME}, or the URI of a key on a token"
	case integer:
		return "a whole number"
	case boolean:
		return "true or false"
	case duration:
		return "a duration such as 30s"
	case period:
		return "a duration such as 90d or 7y"
	case texts, choices, paths, networks:
		return "a list of strings"
	case references:
		return "a list of strings with a reference such as ${env:NAME}"
	case secrets, headers:
		return "a map of strings"
	}
	return "something else"
}

// plain refuses what no key accepts: texts that are too long, zero bytes, and references
// to secrets where they are not resolved.
func (l *loader) plain(v *syntax.Value, name string) bool {
	if problem := unfit(v.Text); problem != "" {
		l.report(diag.ConfigValue, v.Range(), name+" "+problem, "")
		return false
	}
	if i := strings.Index(v.Text, "${"); i >= 0 {
		l.report(diag.ConfigSecret, v.Sub(i, i+2), "no reference to a secret may stand in "+name,
			"References are resolved in the values of env and headers, in jwt.key and oauth.client_secret of MCP servers, in temporal.api_key, store.url, ledger.key, trust.author_key, trust.start_key, guardian.key, pkcs11.pin, payload.keys and the tokens of console.")
		return false
	}
	return true
}

// fits reports whether a text passes the check of its key, if that has one.
func (l *loader) fits(check func(string) error, v *syntax.Value, name, doc string) bool {
	if check == nil {
		return true
	}
	err := check(v.Text)
	if err != nil {
		l.report(diag.ConfigValue, v.Range(), name+" "+err.Error(), doc)
	}
	return err == nil
}

func unfit(s string) string {
	switch {
	case len(s) > maxText:
		return fmt.Sprintf("is longer than %d bytes", maxText)
	case strings.ContainsRune(s, 0):
		return "holds a zero byte"
	}
	return ""
}

// written is the check of a text where there must be a reference, so that nobody writes a secret
// into the file.
func written(text string) error {
	if parts, err := split(text); err == nil && slices.ContainsFunc(parts, func(p part) bool { return p.scheme != "" }) {
		return nil
	}
	return errors.New("must be a reference to a secret, not the secret")
}

// references checks the references in a text, which also has to pass check, if that is not nil.
func (l *loader) references(v *syntax.Value, name string, check func(string) error) bool {
	if problem := unfit(v.Text); problem != "" {
		l.report(diag.ConfigValue, v.Range(), name+" "+problem, "")
		return false
	}
	_, err := split(v.Text)
	var bad *malformed
	if errors.As(err, &bad) {
		l.report(diag.ConfigSecret, v.Sub(bad.offset, bad.end), name+": "+bad.message, "")
		return false
	}
	if check == nil {
		return true
	}
	if err := check(v.Text); err != nil {
		l.report(diag.ConfigSecret, v.Range(), name+" "+err.Error(),
			"Write ${env:NAME} for a variable of the environment, or ${file:PATH} for a file that only its owner can read.")
		return false
	}
	return true
}

// headerName is the form of the names of headers.
var headerName = regexp.MustCompile(`^[0-9A-Za-z_-]{1,128}$`)

// secrets reads a map of texts that may hold references to secrets; names is the form of its
// keys, which are names of what.
func (l *loader) secrets(v *syntax.Value, name string, names *regexp.Regexp, what string, into map[string]Secret) {
	if v.Kind == syntax.Null {
		return
	}
	if !l.isMap(v, name) {
		return
	}
	if len(v.Fields) > maxNamed {
		l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s has %d entries; at most %d are possible", name, len(v.Fields), maxNamed), "")
		return
	}
	for _, f := range v.Fields {
		if !names.MatchString(f.Key.Text) {
			l.report(diag.ConfigKey, f.Key.Range(), excerpt.Quote(f.Key.Text, 80)+" cannot be the name of "+what, "")
			continue
		}
		for other := range into {
			if names == headerName && strings.EqualFold(other, f.Key.Text) {
				l.report(diag.ConfigKey, f.Key.Range(), fmt.Sprintf("%s has the header %s twice", name, f.Key.Text), "")
			}
		}
		if f.Value.Kind != syntax.String {
			l.report(diag.ConfigValue, f.Value.Range(), fmt.Sprintf("%s.%s is a %s, but must be a string", name, f.Key.Text, f.Value.Kind), "Quote what looks like a number.")
			continue
		}
		var check func(string) error
		if names == headerName && strings.EqualFold(f.Key.Text, "Authorization") {
			check = written
		}
		if l.references(f.Value, name+"."+f.Key.Text, check) {
			into[f.Key.Text] = Secret(f.Value.Text)
		}
	}
}

// assign sets a key to a value from the file or the environment: raw, or list if the key
// is a list. Relative paths are relative to dir.
func assign[T any](k key[T], into *T, raw string, list []string, dir string) error {
	switch at := k.at(into).(type) {
	case *string:
		if k.sort == choice && !slices.Contains(k.oneOf, raw) {
			return fmt.Errorf("is %s; possible are %s", excerpt.Quote(raw, 80), strings.Join(k.oneOf, ", "))
		}
		*at = located(k.sort, raw, dir)
	case *Secret:
		*at = Secret(raw)
	case *bool:
		b, err := strconv.ParseBool(raw)
		if err != nil {
			return errors.New("must be true or false")
		}
		*at = b
	case *time.Duration:
		if k.sort == period {
			d, err := Period(raw)
			*at = d
			return err
		}
		d, err := time.ParseDuration(raw)
		if err != nil {
			return errors.New("must be a duration such as 30s")
		}
		if d < time.Duration(k.min) || d > time.Duration(k.max) {
			return fmt.Errorf("must be between %s and %s", time.Duration(k.min), time.Duration(k.max))
		}
		*at = d
	case *int:
		n, err := whole(raw, k.min, k.max)
		*at = int(n)
		return err
	case *int64:
		n, err := whole(raw, k.min, k.max)
		*at = n
		return err
	case *[]Secret:
		*at = nil
		for _, item := range list {
			*at = append(*at, Secret(item))
		}
	case *[]netip.Prefix:
		*at = nil
		for _, item := range list {
			p, err := dial.ParsePrefix(item)
			if err != nil {
				return fmt.Errorf("holds what is no network: %w", err)
			}
			*at = append(*at, p)
		}
	case *[]string:
		if k.sort == choices {
			return choose(at, list, k.oneOf)
		}
		if k.sort == paths {
			for i := range list {
				if list[i] == "" || slices.Contains(list[:i], list[i]) {
					return fmt.Errorf("holds %s, which is empty or there already", excerpt.Quote(list[i], 80))
				}
			}
			for i := range list {
				list[i] = located(path, list[i], dir)
			}
		}
		*at = list
	}
	return nil
}

// units are the units of periods in addition to Go's. A year has the days of the longest
// year, so that nothing is deleted too early.
var units = map[byte]time.Duration{'d': 24 * time.Hour, 'w': 7 * 24 * time.Hour, 'y': 366 * 24 * time.Hour}

// Period reads a positive period: a whole number of days, weeks or years, such as 90d, 12w or
// 7y, or a duration as Go writes it. A year is 366 days.
func Period(raw string) (time.Duration, error) {
	bad := errors.New("must be a duration such as 90d, 12w, 7y or 36h")
	if raw == "" {
		return 0, bad
	}
	unit, ok := units[raw[len(raw)-1]]
	if !ok {
		d, err := time.ParseDuration(raw)
		if err != nil || d <= 0 {
			return 0, bad
		}
		return d, nil
	}
	n, err := strconv.ParseInt(raw[:len(raw)-1], 10, 64)
	if most := int64(math.MaxInt64 / unit); err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%w, and is at most %dy", bad, int64(math.MaxInt64/units['y']))
	}
	return time.Duration(n) * unit, nil
}

func whole(raw string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("must be a whole number between %d and %d", low, high)
	}
	return n, nil
}

func choose(into *[]string, list, oneOf []string) error {
	if len(list) == 0 {
		return fmt.Errorf("must not be empty; possible are %s", strings.Join(oneOf, ", "))
	}
	for i, name := range list {
		if !slices.Contains(oneOf, name) {
			return fmt.Errorf("holds %s; possible are %s", excerpt.Quote(name, 80), strings.Join(oneOf, ", "))
		}
		if slices.Contains(list[:i], name) {
			return fmt.Errorf("holds %s twice", name)
		}
	}
	*into = list
	return nil
}

// located joins a relative path with the folder to which it is relative. It returns a
// command without a slash unchanged, since that is looked up on PATH.
func located(s sort, raw, dir string) string {
	if raw == "" || dir == "" || filepath.IsAbs(raw) {
		return raw
	}
	if s == path || s == command && strings.ContainsRune(raw, '/') {
		joined := filepath.Join(dir, raw)
		if s == command && !strings.ContainsRune(joined, '/') {
			joined = "./" + joined
		}
		return joined
	}
	return raw
}

func (l *loader) isMap(v *syntax.Value, name string) bool {
	if v.Kind == syntax.Map {
		return true
	}
	if name == "" {
		name = "the configuration"
	}
	l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s is a %s, but must be a map", name, v.Kind), "")
	return false
}
