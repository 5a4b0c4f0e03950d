package proto

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The golden vectors: testdata/vectors/README.md says what they are. The cases below make new ones; what a file holds
// already is only ever compared.

var vectorsAdd = flag.Bool("vectors.add", false, "add the vectors that the files do not hold yet; existing ones are never changed")

const vectorsDir = "testdata/vectors"

// frameFile is a file of frames.
type frameFile struct {
	Doc    string        `json:"doc"`
	Frames []frameVector `json:"frames"`
}

type frameVector struct {
	Name      string          `json:"name"`
	Message   string          `json:"message"` // as the schema names it: produce_request
	RequestID string          `json:"request_id"`
	Version   uint8           `json:"version"`
	Fields    json.RawMessage `json:"fields"`
	Frame     string          `json:"frame"` // hex
}

// batchFile is a file of record batches.
type batchFile struct {
	Doc     string        `json:"doc"`
	Batches []batchVector `json:"batches"`
}

type batchVector struct {
	Name         string         `json:"name"`
	Doc          string         `json:"doc"`
	Batch        string         `json:"batch"` // hex
	Fields       batchFields    `json:"fields"`
	RecordsCRC   string         `json:"records_crc"` // CRC32C of the record area, decompressed; hex
	RecordsBytes int            `json:"records_bytes"`
	Records      []recordVector `json:"records"` // null when there is too much to list
}

type batchFields struct {
	BaseOffset      int64  `json:"base_offset,string"`
	LeaderEpoch     int32  `json:"leader_epoch"`
	Codec           string `json:"codec"`
	TimestampType   string `json:"timestamp_type"`
	LastOffsetDelta int32  `json:"last_offset_delta"`
	BaseTimestamp   int64  `json:"base_timestamp,string"`
	MaxTimestamp    int64  `json:"max_timestamp,string"`
	ProducerID      int64  `json:"producer_id,string"`
	ProducerEpoch   int16  `json:"producer_epoch"`
	BaseSequence    int32  `json:"base_sequence"`
	Count           int32  `json:"count"`
}

type recordVector struct {
	Offset    int64          `json:"offset,string"`
	Timestamp int64          `json:"timestamp,string"`
	Key       *string        `json:"key"` // hex; null is null
	Value     *string        `json:"value"`
	Headers   []headerVector `json:"headers"`
}

type headerVector struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

// invalidFile is a file of payloads and batches that have to be refused.
type invalidFile struct {
	Doc      string          `json:"doc"`
	Payloads []invalidVector `json:"payloads"`
	Batches  []invalidVector `json:"batches"`
}

type invalidVector struct {
	Name    string `json:"name"`
	Message string `json:"message,omitempty"`
	Bytes   string `json:"bytes"`
	Error   string `json:"error"` // the code that a broker answers with
}

// keyFile holds keys with their hashes.
type keyFile struct {
	Doc  string      `json:"doc"`
	Keys []keyVector `json:"keys"`
}

type keyVector struct {
	Key        string `json:"key"` // hex
	Hash       uint32 `json:"hash"`
	Partitions uint32 `json:"partitions"`
	Partition  uint32 `json:"partition"`
}

func readVectors(t testing.TB, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectorsDir, file))
	if os.IsNotExist(err) && *vectorsAdd {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func writeVectors(t testing.TB, file string, from any) {
	t.Helper()
	data, err := json.MarshalIndent(from, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(vectorsDir, file), append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func frameFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	seen := map[string]bool{}
	for _, c := range frameCases() {
		if !seen[c.file] {
			seen[c.file] = true
			files = append(files, c.file)
		}
	}
	return files
}

// Every frame is read, has the fields that the file lists, and is written again byte for byte, both from what was read
// and from the listed fields.
func TestVectorFrames(t *testing.T) {
	covered := map[string]bool{}
	for _, file := range frameFiles(t) {
		var f frameFile
		readVectors(t, file, &f)
		f.Doc = "Frames of one command. " + vectorDoc
		have := map[string]int{}
		for i, v := range f.Frames {
			have[v.Name] = i
		}
		added := false
		for _, c := range frameCases() {
			if c.file != file {
				continue
			}
			made := frameVector{Name: c.name, Message: snake(name(c.m)), RequestID: strconv.FormatUint(c.id, 10), Version: 1,
				Fields: fieldsOf(c.m), Frame: hex.EncodeToString(AppendFrame(nil, c.id, c.m))}
			if made.Message == "error" {
				made.Message = "error_response"
			}
			i, ok := have[c.name]
			switch {
			case !ok && *vectorsAdd:
				f.Frames = append(f.Frames, made)
				added = true
			case !ok:
				t.Errorf("%s: %q is missing; add it with -vectors.add", file, c.name)
			case f.Frames[i].Frame != made.Frame:
				t.Errorf("%s: %q is\n%s and would be made as\n%s\nGolden vectors never change: the wire has broken.",
					file, c.name, f.Frames[i].Frame, made.Frame)
			}
		}
		if added {
			writeVectors(t, file, f)
		}
		for _, v := range f.Frames {
			covered[v.Message] = true
			t.Run(v.Name, func(t *testing.T) { checkFrameVector(t, &v) })
		}
	}
	for _, m := range messages() {
		message := snake(name(m))
		if message == "error" {
			message = "error_response"
		}
		if !covered[message] {
			t.Errorf("no vector for %s", message)
		}
	}
}

const vectorDoc = "64-bit integers are decimal strings, bytes and topic ids are hex, tagged fields that are absent are null, zero or empty."

func checkFrameVector(t *testing.T, v *frameVector) {
	frame := unhex(t, v.Frame)
	h, ok, err := DecodeFrameHeader(frame, 1<<30)
	if !ok || err != nil || h.FrameBytes() != len(frame) || h.Version != v.Version || strconv.FormatUint(h.RequestID, 10) != v.RequestID {
		t.Fatalf("header %+v, %v, %v", h, ok, err)
	}
	m := messageOf(h.Command, v.Message)
	if m == nil || m.IsAnswer() != h.Answer {
		t.Fatalf("no message %s of %s with answer %v", v.Message, h.Command, h.Answer)
	}
	if err := m.Decode(frame[FrameHeaderBytes:]); err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	if err := json.Compact(&want, v.Fields); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&got, fieldsOf(m)); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("fields\n%s, want\n%s", &got, &want)
	}
	if again := AppendFrame(nil, h.RequestID, m); !bytes.Equal(again, frame) {
		t.Errorf("what was read is written as\n%x, want\n%x", again, frame)
	}
	built := messageOf(h.Command, v.Message)
	setFields(t, reflect.ValueOf(built).Elem(), v.Fields)
	if again := AppendFrame(nil, h.RequestID, built); !bytes.Equal(again, frame) {
		t.Errorf("the fields are written as\n%x, want\n%x", again, frame)
	}
}

// messageOf makes an empty message from its name in the schema.
func messageOf(c Command, message string) Message {
	switch message[strings.LastIndex(message, "_")+1:] {
	case "request":
		return NewRequest(c)
	case "response":
		return NewResponse(c)
	case "push":
		return NewPush(c)
	}
	return nil
}

// Every batch is read and holds the listed records; uncompressed ones are built again byte for byte.
func TestVectorBatches(t *testing.T) {
	for _, file := range []string{"batches.json", "batches_foreign.json"} {
		var f batchFile
		readVectors(t, file, &f)
		if file == "batches.json" {
			addBatchVectors(t, &f)
		}
		codecs := map[string]bool{}
		for _, v := range f.Batches {
			codecs[v.Fields.Codec] = true
			t.Run(strings.TrimSuffix(file, ".json")+"/"+v.Name, func(t *testing.T) { checkBatchVector(t, &v) })
		}
		for _, c := range allCodecs {
			if !codecs[c.String()] {
				t.Errorf("%s: no batch with codec %s", file, c)
			}
		}
	}
}

func addBatchVectors(t *testing.T, f *batchFile) {
	f.Doc = "Record batches made by this package. Decoders read them; encoders make the same bytes for codec none. " + vectorDoc
	have := map[string]bool{}
	for _, v := range f.Batches {
		have[v.Name] = true
	}
	added := false
	for _, c := range batchCases() {
		switch {
		case have[c.name]:
		case *vectorsAdd:
			f.Batches = append(f.Batches, batchVectorOf(t, c))
			added = true
		default:
			t.Errorf("batches.json: %q is missing; add it with -vectors.add", c.name)
		}
	}
	if added {
		writeVectors(t, "batches.json", f)
	}
}

func batchVectorOf(t *testing.T, c batchCase) batchVector {
	b := c.batch(t)
	v := batchVector{Name: c.name, Doc: c.doc, Batch: hex.EncodeToString(b), Fields: batchFieldsOf(b)}
	plain := decompressed(t, b)
	v.RecordsCRC, v.RecordsBytes = fmt.Sprintf("%08x", CRC(plain)), len(plain)
	if len(plain) < 60_000 {
		v.Records = recordVectorsOf(t, b)
	}
	return v
}

func batchFieldsOf(b Batch) batchFields {
	kind := "create"
	if b.TimestampType() == TimestampAppend {
		kind = "append"
	}
	return batchFields{BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(), Codec: b.Codec().String(), TimestampType: kind,
		LastOffsetDelta: b.LastOffsetDelta(), BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), Count: b.Count()}
}

func decompressed(t *testing.T, b Batch) []byte {
	t.Helper()
	plain, err := Decompress(nil, b.Codec(), b.Records(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func recordVectorsOf(t *testing.T, b Batch) []recordVector {
	t.Helper()
	nullable := func(b []byte) *string {
		if b == nil {
			return nil
		}
		s := hex.EncodeToString(b)
		return &s
	}
	var it RecordIterator
	if err := it.Reset(b, 1<<20); err != nil {
		t.Fatal(err)
	}
	l := []recordVector{}
	for it.Next() {
		r := it.Record()
		v := recordVector{Offset: r.Offset, Timestamp: r.Timestamp, Key: nullable(r.Key), Value: nullable(r.Value), Headers: []headerVector{}}
		for _, h := range r.Headers {
			v.Headers = append(v.Headers, headerVector{Key: hex.EncodeToString(h.Key), Value: nullable(h.Value)})
		}
		l = append(l, v)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return l
}

func checkBatchVector(t *testing.T, v *batchVector) {
	b, err := ParseBatch(unhex(t, v.Batch))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ValidateCRC(); err != nil {
		t.Fatal(err)
	}
	if got := batchFieldsOf(b); got != v.Fields {
		t.Errorf("fields %+v, want %+v", got, v.Fields)
	}
	plain := decompressed(t, b)
	if err := b.ValidateDecompressed(plain); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprintf("%08x", CRC(plain)); got != v.RecordsCRC || len(plain) != v.RecordsBytes {
		t.Errorf("%d record bytes with checksum %s, want %d with %s", len(plain), got, v.RecordsBytes, v.RecordsCRC)
	}
	if v.Records != nil {
		if got := recordVectorsOf(t, b); !reflect.DeepEqual(got, v.Records) {
			t.Errorf("records %+v, want %+v", got, v.Records)
		}
	}
	// From the records alone the same record area, and uncompressed the same batch.
	again := rebuild(t, b)
	if !bytes.Equal(again.Records(), plain) {
		t.Errorf("the records are built as\n%x, want\n%x", again.Records(), plain)
	}
	if b.Codec() == CodecNone && !bytes.Equal(again, b) {
		t.Errorf("the batch is built as\n%x, want\n%x", again, b)
	}
}

// rebuild builds a batch from the records of another one, uncompressed.
func rebuild(t *testing.T, b Batch) Batch {
	var it RecordIterator
	var builder BatchBuilder
	plain := append(append(Batch(nil), b[:BatchHeaderBytes]...), decompressed(t, b)...)
	plain[batchAttributesAt+1] &^= attributeCodecMask | attributeAppendTime // the records' own times
	if err := it.Reset(plain, 0); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		if err := builder.Append(it.Record()); err != nil {
			t.Fatal(err)
		}
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	again, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	again.SetBaseOffset(b.BaseOffset())
	again.SetLeaderEpoch(b.LeaderEpoch())
	again.SetProducer(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	if b.TimestampType() == TimestampAppend {
		again.SetAppendTime(b.MaxTimestamp())
	}
	return again
}

// What has to be refused is refused with the code that the file names.
func TestVectorInvalid(t *testing.T) {
	var f invalidFile
	readVectors(t, "invalid.json", &f)
	f.Doc = "Payloads and record batches that a broker refuses, with the code of its answer; clients refuse them in answers."
	have := map[string]bool{}
	for _, v := range append(append([]invalidVector(nil), f.Payloads...), f.Batches...) {
		have[v.Name] = true
	}
	added := false
	for _, c := range invalidCases(t) {
		switch {
		case have[c.Name]:
		case !*vectorsAdd:
			t.Errorf("invalid.json: %q is missing; add it with -vectors.add", c.Name)
		case c.Message != "":
			f.Payloads = append(f.Payloads, c)
			added = true
		default:
			f.Batches = append(f.Batches, c)
			added = true
		}
	}
	if added {
		writeVectors(t, "invalid.json", f)
	}
	for _, v := range f.Payloads {
		var m Message
		for _, info := range Commands() {
			if strings.HasPrefix(v.Message, strings.ToLower(info.Name)+"_") {
				m = messageOf(info.Command, v.Message)
			}
		}
		if err := m.Decode(unhex(t, v.Bytes)); err == nil {
			t.Errorf("%s: was taken as %+v", v.Name, m)
		} else if code, _ := CodeOf(err); code.String() != v.Error {
			t.Errorf("%s: %v, want %s", v.Name, err, v.Error)
		}
	}
	for _, v := range f.Batches {
		if err := validateProduced(unhex(t, v.Bytes)); err == nil {
			t.Errorf("%s: was taken", v.Name)
		} else if code, _ := CodeOf(err); code.String() != v.Error {
			t.Errorf("%s: %v, want %s", v.Name, err, v.Error)
		}
	}
}

// validateProduced does everything that a broker does with a batch it was sent, opening compressed ones.
func validateProduced(b []byte) error {
	if err := ValidateHeader(b, len(b)); err != nil {
		return err
	}
	batch := Batch(b)
	if err := batch.ValidateCRC(); err != nil {
		return err
	}
	plain, err := Decompress(nil, batch.Codec(), batch.Records(), 1<<20)
	if err != nil {
		return err
	}
	return batch.ValidateDecompressed(plain)
}

func TestVectorKeys(t *testing.T) {
	var f keyFile
	readVectors(t, "keys.json", &f)
	if len(f.Keys) == 0 && *vectorsAdd {
		f.Doc = "Keys (hex) with the murmur2 hash and the partition that they go to."
		for _, key := range []string{"", "a", "ab", "abc", "abcd", "21", "foobar", "a-little-bit-long-string", "\xff\xfe\x00", "ключ"} {
			for _, partitions := range []uint32{1, 3, 12, 1000} {
				f.Keys = append(f.Keys, keyVector{Key: hex.EncodeToString([]byte(key)), Hash: Murmur2([]byte(key)),
					Partitions: partitions, Partition: PartitionForKey([]byte(key), partitions)})
			}
		}
		writeVectors(t, "keys.json", f)
	}
	for _, v := range f.Keys {
		key := unhex(t, v.Key)
		if Murmur2(key) != v.Hash || PartitionForKey(key, v.Partitions) != v.Partition {
			t.Errorf("%q: hash %d, partition %d of %d, want %+v", key, Murmur2(key), PartitionForKey(key, v.Partitions), v.Partitions, v)
		}
	}
}

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
				t.Fatalf("no field %s in %s", name, raw)
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
