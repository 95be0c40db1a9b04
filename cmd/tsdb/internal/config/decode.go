package config

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// place is the position of a field in the file.
type place struct{ line, column int }

// decoder fills structs from the nodes of a document, by their yaml tags. It is strict: unknown and repeated keys, nulls in
// place of values and values of another type are faults. It goes on after a fault, to list all of them.
type decoder struct {
	file   string
	faults []*Fault
	places map[string]place // by field
	nodes  int
}

// fault records a fault of a field.
func (d *decoder) fault(field, format string, args ...any) {
	at := field
	for {
		if p, ok := d.places[at]; ok || at == "" {
			d.faults = append(d.faults, &Fault{
				File: d.file, Line: max(p.line, 1), Column: max(p.column, 1), Field: field, Err: fmt.Errorf(format, args...),
			})
			return
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
}

// faultOfSoundEntries is fault for the checks after the decoding. It ignores faults of sections, and of entries of lists, if they
// have values that could not be decoded, because these values are missing.
func (d *decoder) faultOfSoundEntries() func(field, format string, args ...any) {
	entryOf := func(field string) string {
		entry, _, _ := strings.Cut(field, ".")
		return entry
	}
	unsound := map[string]bool{}
	for _, f := range d.faults {
		unsound[entryOf(f.Field)] = true
	}
	return func(field, format string, args ...any) {
		if !unsound[""] && !unsound[entryOf(field)] {
			d.fault(field, format, args...)
		}
	}
}

// sorted returns the faults in the order of the file.
func (d *decoder) sorted() []*Fault {
	slices.SortStableFunc(d.faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return d.faults
}

// decode fills v from a node. The caller gives a v that can be set.
func (d *decoder) decode(n *yaml.Node, field string, v reflect.Value) {
	d.places[field] = place{n.Line, n.Column}
	if d.nodes++; d.nodes > NodesMax {
		if d.nodes == NodesMax+1 {
			d.fault(field, "%w", ErrNodes)
		}
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	text, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case isText && n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		if err := text.UnmarshalText([]byte(n.Value)); err != nil {
			d.fault(field, "%w", err)
		}
	case !isText && v.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		d.mapping(n, field, v)
	case v.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		d.texts(n, field, v)
	case !isText && v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		d.sequence(n, field, v)
	case !isText && n.Kind == yaml.ScalarNode && d.scalar(n, v):
	default:
		d.fault(field, "%s, want %s", described(n), wanted(v))
	}
}

// mapping fills a struct.
func (d *decoder) mapping(n *yaml.Node, field string, v reflect.Value) {
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := shortened(key.Value)
		if key.Kind != yaml.ScalarNode {
			d.places[field+"."+"?"] = place{key.Line, key.Column}
			d.fault(field+".?", "a key is not a string")
			continue
		}
		at := strings.TrimPrefix(field+"."+name, ".")
		target, known := fieldOf(v, name)
		if !known || seen[name] {
			d.places[at] = place{key.Line, key.Column}
			if known {
				d.fault(at, "the key appears twice")
			} else {
				d.fault(at, "unknown key; known are %s", strings.Join(names(v.Type()), ", "))
			}
			continue
		}
		seen[name] = true
		d.decode(value, at, target)
	}
}

// texts fills a map of texts.
func (d *decoder) texts(n *yaml.Node, field string, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], reflect.New(v.Type().Elem()).Elem()
		at := field + "." + shortened(key.Value)
		d.places[at] = place{key.Line, key.Column}
		if key.Kind != yaml.ScalarNode {
			d.fault(at, "a key is not a string")
			continue
		}
		if v.MapIndex(reflect.ValueOf(key.Value)).IsValid() {
			d.fault(at, "the key appears twice")
			continue
		}
		d.decode(n.Content[i+1], at, value)
		v.SetMapIndex(reflect.ValueOf(key.Value), value)
	}
}

// sequence fills a slice.
func (d *decoder) sequence(n *yaml.Node, field string, v reflect.Value) {
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		if d.nodes > NodesMax {
			return
		}
		d.decode(item, field+"["+strconv.Itoa(i)+"]", v.Index(i))
	}
}

// scalar fills a plain value, and reports whether the node has one of its type.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		if n.Tag != "!!null" {
			v.SetString(n.Value)
		}
		return n.Tag != "!!null"
	case reflect.Bool:
		var value bool
		if n.Tag != "!!bool" || n.Decode(&value) != nil {
			return false
		}
		v.SetBool(value)
		return true
	case reflect.Int, reflect.Int64:
		var value int64
		if n.Tag != "!!int" || n.Decode(&value) != nil {
			return false
		}
		v.SetInt(value)
		return true
	case reflect.Float64:
		var value float64
		if n.Tag != "!!int" && n.Tag != "!!float" || n.Decode(&value) != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return false
		}
		v.SetFloat(value)
		return true
	}
	return false
}

// fieldOf returns the field of a struct that a key names.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			if inner, ok := fieldOf(v.Field(i), key); ok {
				return inner, true
			}
		} else if nameOf(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func names(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			out = append(out, names(t.Field(i).Type)...)
			continue
		}
		out = append(out, nameOf(t.Field(i)))
	}
	return out
}

// nameOf returns the key of a field.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// described describes the kind of a node.
func described(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "this is a mapping"
	case n.Kind == yaml.SequenceNode:
		return "this is a list"
	case n.Tag == "!!null":
		return "the value is missing"
	}
	return fmt.Sprintf("this is %q", shortened(n.Value))
}

// wanted describes the values that a field accepts.
func wanted(v reflect.Value) string {
	if _, isText := v.Addr().Interface().(encoding.TextUnmarshaler); isText {
		return "a value"
	}
	switch v.Kind() {
	case reflect.Struct:
		return "a mapping with " + strings.Join(names(v.Type()), ", ")
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "a mapping of texts"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}
