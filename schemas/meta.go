package schemas

import (
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// metas maps each of the library's own meta-schemas to the one that a reference to it
// leads to here. In the library's, formats assert, and dynamic references look for
// extensions of the meta-schema. In ours, formats are annotations, as everywhere, and
// these references lead to the meta-schema itself: nothing extends it.
var metas = func() map[*jsonschema.Schema]*jsonschema.Schema {
	m := make(map[*jsonschema.Schema]*jsonschema.Schema, len(drafts))
	for _, d := range drafts {
		own := jsonschema.MustCompile(d)
		m[own] = still(own)
	}
	return m
}()

// plain holds all schemas of our meta-schemas.
var plain = func() map[*jsonschema.Schema]bool {
	all := map[*jsonschema.Schema]bool{}
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if !all[s] {
			all[s] = true
			each(s, func(c *jsonschema.Schema, _ bool) { visit(c) })
		}
	}
	for _, s := range metas {
		visit(s)
	}
	return all
}()

// still copies a meta-schema, and makes its dynamic references static.
func still(root *jsonschema.Schema) *jsonschema.Schema {
	done := map[*jsonschema.Schema]*jsonschema.Schema{}
	var copied func(s *jsonschema.Schema) *jsonschema.Schema
	copied = func(s *jsonschema.Schema) *jsonschema.Schema {
		if s == nil {
			return nil
		}
		if c := done[s]; c != nil {
			return c
		}
		c := blank()
		if len(s.Enum) > 0 {
			*c = *listing
		}
		done[s] = c
		from, to := reflect.ValueOf(s).Elem(), reflect.ValueOf(c).Elem()
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				to.Field(i).Set(copiedField(from.Field(i), copied))
			}
		}
		c.RegexProperties, c.RecursiveAnchor, c.DynamicAnchor = false, false, ""
		if s.DynamicRef != nil {
			c.DynamicRef = nil
			c.AllOf = append(c.AllOf, copied(root))
		}
		if s.RecursiveRef != nil {
			c.RecursiveRef = nil
			c.AllOf = append(c.AllOf, copied(root))
		}
		return c
	}
	return copied(root)
}

// copiedField copies the value of a field, and the schemas in it with copied.
func copiedField(v reflect.Value, copied func(*jsonschema.Schema) *jsonschema.Schema) reflect.Value {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return copiedField(v.Elem(), copied)
	case reflect.Pointer:
		if s, ok := v.Interface().(*jsonschema.Schema); ok {
			return reflect.ValueOf(copied(s))
		}
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(copiedField(v.Index(i), copied))
		}
		return out
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), copiedField(it.Value(), copied))
		}
		return out
	}
	return v
}
