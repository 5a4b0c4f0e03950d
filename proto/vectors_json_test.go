package proto

// Messages as JSON with the names of the schema, and back.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// snake turns a Go name into the schema's: TopicID into topic_id.
func snake(s string) string {
	s = strings.NewReplacer("IDs", "Ids", "ID", "Id").Replace(s)
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// fieldsOf lists a message's fields as JSON in the order of the schema.
func fieldsOf(m Message) json.RawMessage {
	var b bytes.Buffer
	writeJSON(&b, reflect.ValueOf(m).Elem())
	return b.Bytes()
}

func writeJSON(b *bytes.Buffer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "%q:", snake(v.Type().Field(i).Name))
			writeJSON(b, v.Field(i))
		}
		b.WriteByte('}')
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("null")
			return
		}
		writeJSON(b, v.Elem())
	case reflect.Array: // a topic id
		fmt.Fprintf(b, `"%x"`, v.Interface())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(b, `"%x"`, v.Bytes())
			return
		}
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.String:
		s, _ := json.Marshal(v.String())
		b.Write(s)
	case reflect.Int64:
		fmt.Fprintf(b, `"%d"`, v.Int())
	case reflect.Uint64:
		fmt.Fprintf(b, `"%d"`, v.Uint())
	case reflect.Bool:
		fmt.Fprint(b, v.Bool())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		fmt.Fprint(b, v.Uint())
	default:
		fmt.Fprint(b, v.Int())
	}
}

// setFields is the other way round.
func setFields(t testing.TB, v reflect.Value, raw json.RawMessage) {
	fail := func(err error) {
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	}
	text := func() (s string) {
		fail(json.Unmarshal(raw, &s))
		return s
	}
	switch v.Kind() {
	case reflect.Struct:
		var fields map[string]json.RawMessage
		fail(json.Unmarshal(raw, &fields))
		for i := range v.NumField() {
			name := snake(v.Type().Field(i).Name)
			if fields[name] == nil {
				// A tagged field that was defined after the vector was released is absent from it; one
				// that is not tagged would change the frame, which is compared.
				continue
			}
			setFields(t, v.Field(i), fields[name])
		}
	case reflect.Pointer:
		if string(raw) != "null" {
			v.Set(reflect.New(v.Type().Elem()))
			setFields(t, v.Elem(), raw)
		}
	case reflect.Array:
		reflect.Copy(v, reflect.ValueOf(unhex(t, text())))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(unhex(t, text()))
			return
		}
		var items []json.RawMessage
		fail(json.Unmarshal(raw, &items))
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i := range items {
			setFields(t, v.Index(i), items[i])
		}
	case reflect.Int64:
		n, err := strconv.ParseInt(text(), 10, 64)
		fail(err)
		v.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(text(), 10, 64)
		fail(err)
		v.SetUint(n)
	default:
		fail(json.Unmarshal(raw, v.Addr().Interface()))
	}
}

// sameFields compares fields with those that a vector lists. Fields that it does not
// list were defined later, and are absent: null, zero, false or empty.
func sameFields(got, want any) bool {
	switch g := got.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			return false
		}
		for name, field := range g {
			listed, ok := w[name]
			if ok && !sameFields(field, listed) || !ok && !absent(field) {
				return false
			}
		}
		for name := range w {
			if _, ok := g[name]; !ok {
				return false
			}
		}
		return true
	case []any:
		w, ok := want.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range g {
			if !sameFields(g[i], w[i]) {
				return false
			}
		}
		return true
	}
	return got == want
}

func absent(field any) bool {
	switch f := field.(type) {
	case nil:
		return true
	case bool:
		return !f
	case float64:
		return f == 0
	case string:
		return f == "" || f == "0"
	case []any:
		return len(f) == 0
	}
	return false
}
