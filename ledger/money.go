package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"chimera.ai/engine/schemas"
)

// Money is an exact amount of one currency, in the currency's minor unit. The
// zero value is no money of no currency. It is comparable, but only amounts of
// one currency compare in a useful way: see [Money.Cmp].
//
// Its JSON form is {"amount": "12.50", "currency": "USD"}: a decimal string
// with exactly as many places as ISO 4217 gives the currency.
type Money struct {
	minor    int64
	currency Currency
}

// Currency is an alphabetic code of ISO 4217, such as "EUR".
type Currency string

// ErrCurrency reports a code that ISO 4217 does not list, or that two amounts
// are of different currencies.
var ErrCurrency = errors.New("currency")

// ErrAmount reports an amount that is not exact in its currency, or too large.
var ErrAmount = errors.New("amount")

// Exponent is the number of decimal places of the currency's minor unit
// (ISO 4217, list one), and whether the code is listed.
func (c Currency) Exponent() (places int, ok bool) {
	if len(c) != 3 {
		return 0, false
	}
	for places, codes := range currencies {
		// Each code is between spaces, so parts of two codes do not match.
		if strings.Contains(codes, " "+string(c)+" ") {
			return places, true
		}
	}
	return 0, false
}

// currencies are the active codes of ISO 4217 (list one) by exponent. Funds,
// metals and codes for tests are left out.
var currencies = [...]string{
	0: " BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF ",
	1: " ",
	2: " AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE" +
		" CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR" +
		" KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB" +
		" PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY" +
		" TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG ",
	3: " BHD IQD JOD KWD LYD OMR TND ",
}

// Minor returns an amount of n minor units: Minor(1250, "USD") is 12.50 USD.
func Minor(n int64, c Currency) (Money, error) {
	if _, ok := c.Exponent(); !ok {
		return Money{}, fmt.Errorf("%w: ISO 4217 lists no %.20q", ErrCurrency, string(c))
	}
	return Money{minor: n, currency: c}, nil
}

// ParseMoney reads a decimal such as "12.5", "-3" or "1e3" exactly. Fractions
// of a minor unit and amounts beyond 63 bits of them are refused.
func ParseMoney(amount string, c Currency) (Money, error) {
	places, ok := c.Exponent()
	if !ok {
		return Money{}, fmt.Errorf("%w: ISO 4217 lists no %.20q", ErrCurrency, string(c))
	}
	if !decimal(amount) {
		return Money{}, fmt.Errorf("%w: %.40q is not a decimal number", ErrAmount, amount)
	}
	r, ok := new(big.Rat).SetString(amount)
	if !ok {
		return Money{}, fmt.Errorf("%w: %.40q is not a decimal number", ErrAmount, amount)
	}
	r.Mul(r, new(big.Rat).SetInt(power(places)))
	switch {
	case !r.IsInt():
		return Money{}, fmt.Errorf("%w: %s has more than the %d decimal places of %s", ErrAmount, amount, places, c)
	case !r.Num().IsInt64():
		return Money{}, fmt.Errorf("%w: %.40s %s is too large", ErrAmount, amount, c)
	}
	return Money{minor: r.Num().Int64(), currency: c}, nil
}

// decimal reports whether s is safe to parse by big.Rat: a short JSON number with an
// exponent of at most two digits.
func decimal(s string) bool {
	if len(s) > 40 || !json.Valid([]byte(s)) || strings.ContainsAny(s, "tfn\"[{ \t\r\n") {
		return false
	}
	i := strings.IndexAny(s, "eE")
	return i < 0 || len(strings.TrimLeft(s[i+1:], "+-")) <= 2
}

func power(places int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
}

// Minor is the amount in minor units.
func (m Money) Minor() int64 { return m.minor }

// Currency is the amount's currency, "" for the zero value.
func (m Money) Currency() Currency { return m.currency }

// IsZero reports whether the amount is none, of whichever currency.
func (m Money) IsZero() bool { return m.minor == 0 }

// Amount is the amount as a decimal with all its places: "12.50".
func (m Money) Amount() string {
	places, _ := m.currency.Exponent()
	return new(big.Rat).SetFrac(big.NewInt(m.minor), power(places)).FloatString(places)
}

// String is the amount and the currency: "12.50 USD".
func (m Money) String() string {
	if m.currency == "" {
		return "0"
	}
	return m.Amount() + " " + string(m.currency)
}

// Add is the sum. Different currencies and overflow are errors; the zero value
// adds to every currency.
func (m Money) Add(o Money) (Money, error) {
	c, err := m.common(o)
	if err != nil {
		return Money{}, err
	}
	sum := m.minor + o.minor
	if (sum > m.minor) != (o.minor > 0) && o.minor != 0 {
		return Money{}, fmt.Errorf("%w: %s and %s together are too large", ErrAmount, m, o)
	}
	return Money{minor: sum, currency: c}, nil
}

// Sub is the difference, under the rules of [Money.Add].
func (m Money) Sub(o Money) (Money, error) {
	c, err := m.common(o)
	if err != nil {
		return Money{}, err
	}
	diff := m.minor - o.minor
	if (diff < m.minor) != (o.minor > 0) && o.minor != 0 {
		return Money{}, fmt.Errorf("%w: %s less %s is too large", ErrAmount, m, o)
	}
	return Money{minor: diff, currency: c}, nil
}

// Cmp is -1, 0 or 1 as m is less than, equal to or more than o; different
// currencies are an error.
func (m Money) Cmp(o Money) (int, error) {
	if _, err := m.common(o); err != nil {
		return 0, err
	}
	switch {
	case m.minor < o.minor:
		return -1, nil
	case m.minor > o.minor:
		return 1, nil
	}
	return 0, nil
}

func (m Money) common(o Money) (Currency, error) {
	switch {
	case m == Money{}:
		return o.currency, nil
	case o == Money{}, m.currency == o.currency:
		return m.currency, nil
	}
	return "", fmt.Errorf("%w: %s and %s do not mix", ErrCurrency, m.currency, o.currency)
}

type moneyJSON struct {
	Amount   string   `json:"amount"`
	Currency Currency `json:"currency"`
}

// MarshalJSON writes the form that the type describes; the zero value, which
// has no currency, is an error.
func (m Money) MarshalJSON() ([]byte, error) {
	if m.currency == "" {
		return nil, fmt.Errorf("%w: an amount without a currency", ErrCurrency)
	}
	return json.Marshal(moneyJSON{m.Amount(), m.currency})
}

// UnmarshalJSON reads the form that the type describes, and no other spelling
// of an amount.
func (m *Money) UnmarshalJSON(raw []byte) error {
	// encoding/json would accept fields in any case, and twice.
	doc, err := schemas.Decode(raw)
	if err != nil {
		return err
	}
	fields, _ := doc.(map[string]any)
	amount, ok := fields["amount"].(string)
	currency, ok2 := fields["currency"].(string)
	if !ok || !ok2 || len(fields) != 2 {
		return fmt.Errorf(`%w: it is not {"amount": "12.50", "currency": "USD"}`, ErrAmount)
	}
	v, err := ParseMoney(amount, Currency(currency))
	if err != nil {
		return err
	}
	if v.Amount() != amount {
		return fmt.Errorf("%w: %q is written %q", ErrAmount, amount, v.Amount())
	}
	*m = v
	return nil
}
