package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// messages makes one of every message that there is.
func messages() []Message {
	var l []Message
	for _, info := range Layouts() {
		for _, make := range []func(Command) Message{NewRequest, NewResponse, NewPush} {
			if m := make(info.Command); m != nil {
				l = append(l, m)
			}
		}
	}
	return l
}

func name(m Message) string { return reflect.TypeOf(m).Elem().Name() }

// draw fills a value of any type that messages are made of. Lists and byte fields are never nil, as decoding leaves
// them; sameMessage holds nil and empty to be one.
func draw(t *rapid.T, v reflect.Value, field string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i), field+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, field) {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem(), field)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, field)
		if v.Type().Elem().Kind() == reflect.Uint8 && rapid.IntRange(0, 9).Draw(t, field) == 0 {
			n = 300 // a length of two bytes
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i), field)
		}
	case reflect.Array:
		for i := range v.Len() {
			draw(t, v.Index(i), field)
		}
	case reflect.String:
		v.SetString(rapid.StringN(0, 20, 200).Draw(t, field))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, field))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64Range(0, 1<<v.Type().Bits()-1).Draw(t, field))
	case reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		v.SetInt(rapid.Int64Range(-1<<(bits-1), 1<<(bits-1)-1).Draw(t, field))
	default:
		panic("a message has a field of kind " + v.Kind().String())
	}
}

// same compares two messages; nil and empty lists are one.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func sameMessage(a, b Message) bool { return same(reflect.ValueOf(a), reflect.ValueOf(b)) }

// Any message survives the wire, into a fresh value and into one that held another message before.
func TestMessageRoundTrip(t *testing.T) {
	for _, m := range messages() {
		used := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
		t.Run(name(m), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				draw(t, reflect.ValueOf(m).Elem(), "")
				b := m.AppendTo([]byte("before"))[6:]
				if len(b) != m.Size() {
					t.Fatalf("Size is %d, AppendTo made %d bytes", m.Size(), len(b))
				}
				fresh := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
				for _, into := range []Message{fresh, used} {
					if err := into.Decode(b); err != nil {
						t.Fatal(err)
					}
					if !sameMessage(m, into) {
						t.Fatalf("%+v became %+v", m, into)
					}
				}
			})
		})
	}
}

// A message cut off at any byte is refused as too short; with bytes after its end it is refused too. Bulk bytes have no
// end of their own, so only their heads are cut.
func TestMessageCutAndLong(t *testing.T) {
	for _, m := range messages() {
		t.Run(name(m), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				draw(t, reflect.ValueOf(m).Elem(), "")
				b := m.AppendTo(nil)
				into := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
				end := len(b)
				if bulk, ok := m.(interface{ HeadSize() int }); ok {
					end = bulk.HeadSize()
				} else if err := into.Decode(append(b[:len(b):len(b)], 0)); err == nil {
					t.Fatal("a byte too many was taken")
				}
				for cut := range end {
					err := into.Decode(b[:cut])
					var d *DecodeError
					if !errors.As(err, &d) {
						t.Fatalf("cut at %d of %d: %v", cut, end, err)
					}
					if !d.Short || d.Field == "" || d.What == "" || d.Offset > cut {
						t.Fatalf("cut at %d of %d: the error is %+v", cut, end, d)
					}
					if !errors.Is(err, ErrMalformedRequest) {
						t.Fatalf("%v is not MALFORMED_REQUEST", err)
					}
				}
			})
		})
	}
}

// Any change of a valid message, and garbage, is refused or understood: it never panics, and what was understood can be
// written again.
func TestMessageGarbage(t *testing.T) {
	for _, m := range messages() {
		t.Run(name(m), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				draw(t, reflect.ValueOf(m).Elem(), "")
				b := m.AppendTo(nil)
				for range rapid.IntRange(1, 4).Draw(t, "changes") {
					if len(b) > 0 {
						b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff}).Draw(t, "byte")
					}
				}
				checkDecode(t, m, b)
			})
		})
	}
}

// checkDecode decodes b as a message of m's type and, when that works, holds it to what it writes. It returns whether
// it worked.
func checkDecode(t interface{ Fatalf(string, ...any) }, m Message, b []byte) bool {
	into := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
	if into.Decode(b) != nil {
		return false
	}
	again := into.AppendTo(nil)
	if len(again) != into.Size() {
		t.Fatalf("Size is %d, AppendTo made %d bytes", into.Size(), len(again))
	}
	if len(again) > len(b) { // shorter when tags were not known or held nothing
		t.Fatalf("%x became longer: %x", b, again)
	}
	second := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
	if err := second.Decode(again); err != nil {
		t.Fatalf("%x became %x: %v", b, again, err)
	}
	if !sameMessage(into, second) {
		t.Fatalf("%+v became %+v", into, second)
	}
	return true
}

// What the rules for encoding refuse, each with a text that says why.
func TestDecodeRefuses(t *testing.T) {
	u := binary.AppendUvarint
	subscribe := func(list []byte) []byte {
		b := binary.BigEndian.AppendUint64(nil, 0) // subscription
		return append(b, list...)
	}
	for _, c := range []struct {
		name string
		into Message
		b    []byte
		want string
	}{
		{"count of 2^31", new(SubscribeRequest), subscribe(u(nil, 1<<31)), "31 bits"},
		{"count of 2^63", new(SubscribeRequest), subscribe(u(nil, 1<<63)), "31 bits"},
		{"count that does not fit", new(SubscribeRequest), subscribe(u(nil, 1<<30)), "do not fit"},
		{"overlong count", new(SubscribeRequest), subscribe([]byte{0x80, 0x00}), "needless"},
		{"endless count", new(SubscribeRequest), subscribe(bytes.Repeat([]byte{0x80}, 20)), "31 bits"},
		{"length past the end", new(Error), append([]byte{0, 1}, 5, 'a'), "needs 5 bytes, 1 left"},
		{"not UTF-8", new(Error), append([]byte{0, 1}, 1, 0xff, 0), "UTF-8"},
		{"bool of 2", new(SubscribeRequest), append(subscribe([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 2, 0), "not a bool"},
		{"tags that fall", new(Error), []byte{0, 1, 0, 2, 90, 0, 89, 0}, "tags rise"},
		{"tag twice", new(Error), []byte{0, 1, 0, 2, 90, 0, 90, 0}, "tags rise"},
		{"tag value too short", new(Error), []byte{0, 1, 0, 1, 0, 2, 1, 1}, "needs 4 bytes, 2 left"},
		{"tag value too long", new(Error), []byte{0, 1, 0, 1, 0, 5, 0, 0, 0, 1, 1}, "tag 0 has 1 bytes too many"},
		{"tag value past the end", new(Error), []byte{0, 1, 0, 1, 90, 9, 0}, "needs 9 bytes, 1 left"},
		{"too many tags", new(Error), []byte{0, 1, 0, 200, 1}, "do not fit"},
		{"bytes after the end", new(PingRequest), make([]byte, 10), "1 bytes too many"},
	} {
		err := c.into.Decode(c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A peer that knows more tags than we do is understood.
func TestDecodeSkipsUnknownTags(t *testing.T) {
	b := []byte{0, 9, 0, 3, 0, 4, 0, 0, 0, 7}
	b = append(b, 77, 3, 'x', 'y', 'z')
	b = append(b, 78, 0)
	var e Error
	if err := e.Decode(b); err != nil {
		t.Fatal(err)
	}
	if e.Code != CodeOverloaded || e.WaitMs != 7 {
		t.Fatalf("%+v", e)
	}
}

// A list costs memory only as far as the bytes can hold it.
func TestDecodeCountCostsNothing(t *testing.T) {
	// An item takes 41 bytes at least: 25 would need more than there are.
	for _, count := range []uint64{1 << 27, 1000, 25} {
		b := binary.AppendUvarint(make([]byte, 8), count)
		b = append(b, make([]byte, 1000)...)
		var m SubscribeRequest
		if m.Decode(b) == nil {
			t.Fatalf("a list of %d items in 1000 bytes was taken", count)
		}
		if cap(m.Add) != 0 {
			t.Fatalf("room for %d items was made", cap(m.Add))
		}
	}
}

func TestDecodeHeadOfPieces(t *testing.T) {
	m := ProduceRequest{TopicID: [16]byte{1}, Partition: 7, LeaderEpoch: -1, Acks: AcksDurable, TimeoutMs: 30_000, Batch: []byte("batch")}
	b := m.AppendTo(nil)
	for n := range b {
		var into ProduceRequest
		used, err := into.DecodeHead(b[:n])
		if n < m.HeadSize() {
			var d *DecodeError
			if !errors.As(err, &d) || !d.Short {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		if err != nil || used != m.HeadSize() || into.Partition != 7 || into.Batch != nil {
			t.Fatalf("%d bytes: %d, %v, %+v", n, used, err, into)
		}
	}
}

// The commands that carry messages allocate nothing, neither written nor read.
func TestHotMessagesAllocateNothing(t *testing.T) {
	payload := make([]byte, 4096)
	hot := []Message{
		&ProduceRequest{TopicID: [16]byte{1}, Batch: payload}, &ProduceResponse{BaseOffset: 1},
		&FetchRequest{TopicID: [16]byte{1}}, &FetchResponse{Batches: payload},
		&DeliverPush{TopicID: [16]byte{1}, Batches: payload},
		&CreditRequest{Subscription: 1}, &CreditPush{WindowBytes: 1},
		&PingRequest{}, &PingResponse{},
	}
	b := make([]byte, 0, 8192)
	for _, m := range hot {
		into := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
		allocs := testing.AllocsPerRun(100, func() {
			b = AppendFrame(b[:0], 7, m)
			h, ok, err := DecodeFrameHeader(b, 1<<20)
			if !ok || err != nil || h.Command != m.Command() {
				t.Fatal(h, ok, err)
			}
			if err := into.Decode(b[FrameHeaderBytes:]); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name(m), allocs)
		}
	}
}

// Lists that a value has are used again.
func TestDecodeUsesListsAgain(t *testing.T) {
	m := SubscribeRequest{Add: make([]SubscribePartition, 100), Remove: make([]TopicPartition, 50)}
	b := m.AppendTo(nil)
	var into SubscribeRequest
	allocs := testing.AllocsPerRun(10, func() {
		if err := into.Decode(b); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkProduceRequest(b *testing.B) {
	m := ProduceRequest{TopicID: [16]byte{1}, Batch: make([]byte, 1000)}
	buf := make([]byte, 0, 2048)
	var into ProduceRequest
	for b.Loop() {
		buf = AppendFrame(buf[:0], 7, &m)
		if err := into.Decode(buf[FrameHeaderBytes:]); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleAppendFrame() {
	frame := AppendFrame(nil, 1, &PingRequest{Opaque: 42})
	header, _, _ := DecodeFrameHeader(frame, 1<<20)
	var ping PingRequest
	err := ping.Decode(frame[FrameHeaderBytes:])
	fmt.Println(header.Command, header.RequestID, ping.Opaque, err)
	// Output: PING 1 42 <nil>
}
