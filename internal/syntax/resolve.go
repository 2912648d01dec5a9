package syntax

import (
	"math/big"
	"strconv"
	"strings"
)

// Bounds of a number. JSON sets none, but readers that take 1e1000000000 for a
// value can be brought down by it.
const (
	maxDigits   = 400
	maxExponent = 400
)

// resolve gives the kind of a plain scalar by the core schema of YAML 1.2.2,
// section 10.3.2, and the text of its value: for a number its JSON literal.
// problem says why it is refused, or is "".
func resolve(text string) (kind Kind, value, problem string) {
	if text == "" {
		return Null, "", ""
	}
	switch c := text[0]; {
	case c == '~' || c == 'n' || c == 'N':
		switch text {
		case "~", "null", "Null", "NULL":
			return Null, "", ""
		}
	case c == 't' || c == 'T':
		switch text {
		case "true", "True", "TRUE":
			return Bool, "true", ""
		}
	case c == 'f' || c == 'F':
		switch text {
		case "false", "False", "FALSE":
			return Bool, "false", ""
		}
	case c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.':
		return number(text)
	}
	return String, text, ""
}

// number resolves text that begins like a number.
func number(text string) (kind Kind, value, problem string) {
	body := strings.TrimLeft(text, "+-")
	switch body {
	case ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN":
		if len(text)-len(body) <= 1 && (len(body) == len(text) || body[1]|' ' == 'i') {
			return Number, "0", "JSON has no such number. Write it in quotes if text is meant."
		}
		return String, text, ""
	}
	if strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0o") {
		return radix(text)
	}
	sign, rest := "", text
	if rest[0] == '+' || rest[0] == '-' {
		if rest[0] == '-' {
			sign = "-"
		}
		rest = rest[1:]
	}
	whole, rest := digits(rest)
	point, fraction := false, ""
	if strings.HasPrefix(rest, ".") {
		point = true
		fraction, rest = digits(rest[1:])
	}
	if whole == "" && fraction == "" {
		return String, text, ""
	}
	exponent := ""
	if rest != "" && rest[0]|' ' == 'e' {
		minus := ""
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			if rest[0] == '-' {
				minus = "-"
			}
			rest = rest[1:]
		}
		if exponent, rest = digits(rest); exponent == "" {
			return String, text, ""
		}
		if exponent = strings.TrimLeft(exponent, "0"); exponent == "" {
			exponent, minus = "0", ""
		}
		exponent = minus + exponent
	}
	if rest != "" {
		return String, text, ""
	}
	if len(whole) > 1 && whole[0] == '0' {
		return Number, "0", "A number may not begin with 0: some readers take it for octal, others for decimal. Drop the zero, write 0o… for octal, or use quotes if text is meant."
	}
	if len(text) > maxDigits {
		return Number, "0", "It has more than " + strconv.Itoa(maxDigits) + " characters. Write it in quotes if text is meant."
	}
	if n, err := strconv.Atoi(exponent); exponent != "" && (err != nil || n > maxExponent || n < -maxExponent) {
		return Number, "0", "Its exponent is beyond " + strconv.Itoa(maxExponent) + ". Write it in quotes if text is meant."
	}
	if whole == "" {
		whole = "0"
	}
	value = sign + whole
	if point {
		if fraction == "" {
			fraction = "0"
		}
		value += "." + fraction
	}
	if exponent != "" {
		value += "e" + exponent
	}
	if value == "-0" {
		value = "0"
	}
	return Number, value, ""
}

// radix resolves 0x and 0o integers.
func radix(text string) (kind Kind, value, problem string) {
	base := 16
	if text[1] == 'o' {
		base = 8
	}
	body := text[2:]
	for i := range len(body) {
		c := body[i] | ' '
		if c >= '0' && c <= '9' && int(c-'0') < base && body[i] == c || base == 16 && c >= 'a' && c <= 'f' {
			continue
		}
		return String, text, ""
	}
	if body == "" {
		return String, text, ""
	}
	if len(body) > maxDigits*3/4 {
		return Number, "0", "It has more than " + strconv.Itoa(maxDigits) + " digits. Write it in quotes if text is meant."
	}
	n, ok := new(big.Int).SetString(body, base)
	if !ok {
		return String, text, ""
	}
	return Number, n.String(), ""
}

// digits splits off the decimal digits that s begins with.
func digits(s string) (found, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}
