package sqlstore

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

func scanText(rows *sql.Rows) (raw string, err error) { return raw, rows.Scan(&raw) }

// text encodes an entity. Text that is not UTF-8 would change.
func text(v any) (string, error) {
	if !valid(reflect.ValueOf(v)) {
		return "", fmt.Errorf("%w: a text is not UTF-8", ledger.ErrInvalid)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	// As the entry's body has it: JSON within it in one order.
	raw, err = canonical(raw)
	return string(raw), err
}

// key is the key of an entry: its kind, and what it is about.
func key(kind ledger.Kind, about string) string { return string(kind) + "/" + about }

func canonical(raw json.RawMessage) ([]byte, error) {
	v, err := schemas.Decode(raw)
	if err == nil {
		raw, err = plan.Canonical(v)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	return raw, nil
}

// valid reports whether all texts of an entity are UTF-8.
func valid(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return utf8.Valid(v.Bytes())
		}
		for i := range v.Len() {
			if !valid(v.Index(i)) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !valid(v.Field(i)) {
				return false
			}
		}
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || valid(v.Elem())
	default: // numbers, truth values
	}
	return true
}
