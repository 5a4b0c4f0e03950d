package proto

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
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
	var want, got any
	if err := json.Unmarshal(v.Fields, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(fieldsOf(m), &got); err != nil {
		t.Fatal(err)
	}
	if !sameFields(got, want) {
		t.Errorf("fields\n%s, want\n%s", fieldsOf(m), v.Fields)
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
		for _, info := range Layouts() {
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
