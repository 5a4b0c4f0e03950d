package abuse

import (
	"reflect"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// request is a valid frame of a command.
type request struct {
	name  string
	frame []byte
}

// requests are one for each command that a client may send, made from the schema, with two items in each list.
// HELLO is the first one.
func (b *broker) requests(t *testing.T) (all []request) {
	t.Helper()
	for _, info := range proto.Commands() {
		if !info.Request {
			continue
		}
		m := proto.NewRequest(info.Command)
		b.fill(t, reflect.ValueOf(m).Elem(), "")
		all = append(all, request{info.Name, proto.AppendFrame(nil, 77, m)})
	}
	if len(all) < 10 || all[0].name != "HELLO" {
		t.Fatalf("the schema has %d requests", len(all))
	}
	return all
}

// fill gives every field a value that makes sense to the broker where there is one.
func (b *broker) fill(t *testing.T, v reflect.Value, field string) {
	switch {
	case field == "Magic":
		v.SetUint(proto.Magic)
		return
	case field == "TopicID":
		v.Set(reflect.ValueOf([16]byte(b.topic)))
		return
	case field == "LeaderEpoch" || field == "LastEpoch":
		v.SetInt(-1)
		return
	case field == "Name" || field == "Topic":
		v.SetString("partial")
		return
	case field == "Partition" || field == "Subscription" || field == "Offset" || field == "TimeoutMs" || field == "Before":
		return // 0
	case field == "Batch":
		v.SetBytes(batch(t, proto.CodecNone, []byte("whole or not at all")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			b.fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		b.fill(t, v.Elem(), field)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			b.fill(t, v.Index(i), "")
		}
	case reflect.Array:
		for i := range v.Len() {
			b.fill(t, v.Index(i), "")
		}
	case reflect.String:
		v.SetString("abuse")
	case reflect.Bool:
		v.SetBool(false)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	default:
		t.Fatalf("field %s is of kind %v", field, v.Kind())
	}
}

// batch is a record batch with one record for each value.
func batch(t *testing.T, codec proto.Codec, values ...[]byte) proto.Batch {
	t.Helper()
	var b proto.BatchBuilder
	b.Reset(codec)
	for _, value := range values {
		if err := b.Append(&proto.Record{Timestamp: time.Now().UnixMilli(), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append(proto.Batch(nil), built...)
}

// produce is a PRODUCE of a batch to partition 0.
func produce(topic [16]byte, id uint64, b proto.Batch) []byte {
	return proto.AppendFrame(nil, id, &proto.ProduceRequest{TopicID: topic, LeaderEpoch: -1, Acks: proto.AcksDurable, Batch: b})
}
