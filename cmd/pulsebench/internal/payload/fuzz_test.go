package payload

import (
	"bytes"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// FuzzMark reads marks out of any value. What reads writes the same bytes.
func FuzzMark(f *testing.F) {
	value := NewValue(100, 3)
	(&Mark{Records: 5, Run: 7, Producer: 1, Index: 2, Counter: 9, Sent: 11}).Put(value)
	f.Add(value)
	f.Add(value[:MarkBytes])
	f.Add(value[:MarkBytes-1])
	f.Fuzz(func(t *testing.T, value []byte) {
		mark, ok := ReadMark(value)
		if !ok {
			return
		}
		again := bytes.Clone(value)
		if mark.Put(again); !bytes.Equal(again, value) {
			t.Fatal("reads as something else")
		}
	})
}

// FuzzMatch changes a batch of a template: one that differs in a byte that no broker sets does not match.
func FuzzMatch(f *testing.F) {
	var templates []*Template
	for _, codec := range []proto.Codec{proto.CodecNone, proto.CodecGzip, proto.CodecSnappy, proto.CodecLZ4} {
		template, err := NewTemplate(Spec{Records: 10, RecordBytes: 200, Codec: codec, Run: 77})
		if err != nil {
			f.Fatal(err)
		}
		templates = append(templates, template)
	}
	f.Add(uint8(0), uint32(70), []byte{1})
	f.Add(uint8(1), uint32(130), []byte{0})
	f.Fuzz(func(t *testing.T, which uint8, at uint32, b []byte) {
		template := templates[int(which)%len(templates)]
		batch := template.AppendHead(nil, Mark{Producer: 3, Counter: 4, Sent: 5}, 1_700_000_000_000)
		batch = append(batch, template.Tail()...)
		good := bytes.Clone(batch)
		copy(batch[int(at)%len(batch):], b)
		mark, ok := template.Match(proto.Batch(batch))
		if bytes.Equal(batch, good) != ok && (batch[8] != good[8] || !bytes.Equal(batch[16:], good[16:])) {
			t.Fatalf("%v: hurt at %d, matches %v as %+v", template.Codec(), int(at)%len(batch), ok, mark)
		}
	})
}
