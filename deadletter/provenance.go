package deadletter

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pulsemq/pulsemq/proto"
)

// HeaderPrefix begins the names that are the broker's: clients of this project refuse them in what they send.
const HeaderPrefix = "mq-"

// The names of the headers.
const (
	HeaderTopic     = "mq-topic"
	HeaderPartition = "mq-partition"
	HeaderOffset    = "mq-offset"
	HeaderTimestamp = "mq-timestamp"
	HeaderGroup     = "mq-group"
	HeaderAttempts  = "mq-attempts"
	HeaderReason    = "mq-reason"
)

// headerNames are the names of all headers, in the order in which they are written.
var headerNames = [...]string{HeaderTopic, HeaderPartition, HeaderOffset, HeaderTimestamp, HeaderGroup, HeaderAttempts, HeaderReason}

// textSeparator lies between the word of a reason and what the member said.
const textSeparator = ": "

// Provenance says where a dead letter comes from and why it is here.
type Provenance struct {
	Topic     string
	Partition uint32
	Offset    int64
	Timestamp int64 // of the record before it died, Unix milliseconds
	Group     string
	Attempts  uint32
	Reason    string // one word
	Text      string // what the member said; "" when it said nothing
}

// AppendHeaders appends a record's own headers and then the provenance.
func (p *Provenance) AppendHeaders(dst, of []proto.Header) []proto.Header {
	dst = AppendOwn(dst, of)
	reason := p.Reason
	if p.Text != "" {
		reason += textSeparator + p.Text
	}
	for i, value := range [len(headerNames)]string{
		p.Topic, strconv.FormatUint(uint64(p.Partition), 10), strconv.FormatInt(p.Offset, 10), strconv.FormatInt(p.Timestamp, 10),
		p.Group, strconv.FormatUint(uint64(p.Attempts), 10), reason,
	} {
		dst = append(dst, proto.Header{Key: []byte(headerNames[i]), Value: []byte(value)})
	}
	return dst
}

// AppendOwn appends those headers of a record that are its own: all but those with the broker's prefix.
func AppendOwn(dst, of []proto.Header) []proto.Header {
	for _, h := range of {
		if !bytes.HasPrefix(h.Key, []byte(HeaderPrefix)) {
			dst = append(dst, h)
		}
	}
	return dst
}

// ParseProvenance reads what AppendHeaders wrote. The error names a header that is missing, given twice or unreadable:
// the record is no dead letter, somebody else wrote it.
func ParseProvenance(headers []proto.Header) (Provenance, error) {
	var values [len(headerNames)][]byte
	for _, h := range headers {
		at := slices.Index(headerNames[:], string(h.Key))
		if at < 0 {
			continue
		}
		if values[at] != nil {
			return Provenance{}, fmt.Errorf("header %s is there twice", headerNames[at])
		}
		values[at] = append([]byte{}, h.Value...) // an empty value is not a missing one
	}
	for i, v := range values {
		if v == nil {
			return Provenance{}, fmt.Errorf("header %s is missing", headerNames[i])
		}
	}
	var err error
	number := func(at, bits int) uint64 {
		// All numbers are written without a sign.
		n, bad := strconv.ParseUint(string(values[at]), 10, bits)
		if bad != nil && err == nil {
			err = fmt.Errorf("header %s is not a number that it can be", headerNames[at])
		}
		return n
	}
	p := Provenance{
		Topic: string(values[0]), Partition: uint32(number(1, 32)), Offset: int64(number(2, 63)), Timestamp: int64(number(3, 63)),
		Group: string(values[4]), Attempts: uint32(number(5, 32)),
	}
	p.Reason, p.Text, _ = strings.Cut(string(values[6]), textSeparator)
	if err != nil {
		return Provenance{}, err
	}
	return p, nil
}
