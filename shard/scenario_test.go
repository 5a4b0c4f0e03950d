package shard

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// TestScenarios plays the stories of testdata. After each command the answers
// that reactors got are printed.
//
//	create NAME [partitions=N] [KEY=VALUE]...   delete NAME    alter NAME [partitions=N] [KEY=VALUE]...
//	produce NAME/N [records=] [value=] [producer= epoch= sequence=] [acks=0] [wait=] [leader=] [codec=] [keyless]
//	fetch NAME/N offset= [min=] [max=] [records=] [wait=] [last=] [conn=]
//	subscribe NAME/N offset= id= [conn=]   unsubscribe NAME/N id=   credit id= bytes=   disconnect conn=
//	list NAME/N earliest|latest|max|time=    trim NAME/N before=    describe NAME/N    producer
//	hold     disk operations do not end     release  they end again
//	settle   turns until nothing moves      advance DURATION
//	return   gives all parcels back         crash    cuts the power     stop    ends cleanly and starts again
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenario", func(t *testing.T, path string) {
		s := &scenario{node: newNode(t, 1)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			s.command(d)
			return s.output()
		})
	})
}

type scenario struct {
	*node
	parcels []mail.Answer
}

func (s *scenario) output() string {
	var b strings.Builder
	for _, a := range s.answers() {
		if a.Parcel != nil {
			s.parcels = append(s.parcels, a)
		}
		b.WriteString(s.describe(&a) + "\n")
	}
	if b.Len() == 0 {
		return "(nothing)\n"
	}
	return b.String()
}

var answerNames = map[mail.AnswerKind]string{
	mail.AnswerError: "error", mail.AnswerProduce: "produced", mail.AnswerFetch: "fetched", mail.AnswerSubscribe: "subscribed",
	mail.AnswerDeliver: "pushed", mail.AnswerListOffset: "offset", mail.AnswerDescribe: "described", mail.AnswerTrim: "trimmed", mail.AnswerAdmin: "done",
}

func (s *scenario) describe(a *mail.Answer) string {
	out := fmt.Sprintf("#%d %s", a.ID, answerNames[a.Kind])
	if a.Err != nil {
		out += " " + a.Err.Code.String()
		switch {
		case a.Err.Offsets != nil:
			out += fmt.Sprintf(" earliest=%d latest=%d", a.Err.Offsets.Earliest, a.Err.Offsets.Latest)
		case a.Err.Truncation != nil:
			out += fmt.Sprintf(" epoch=%d end=%d", a.Err.Truncation.Epoch, a.Err.Truncation.EndOffset)
		case a.Err.WaitMs != 0:
			out += fmt.Sprintf(" wait=%dms", a.Err.WaitMs)
		}
		return out
	}
	switch a.Kind {
	case mail.AnswerProduce:
		out += fmt.Sprintf(" offset=%d durability=%v epoch=%d", a.Offset, a.Durability, a.LeaderEpoch)
		if a.Duplicate {
			out += " duplicate"
		}
		if a.Timestamp >= 0 {
			out += " append-time"
		}
	case mail.AnswerFetch, mail.AnswerDeliver:
		records := parcelRecords(s.t, a.Parcel)
		if len(records) == 0 {
			out += " nothing"
		} else {
			out += fmt.Sprintf(" [%d, %d)", records[0].Offset, records[len(records)-1].Offset+1)
		}
		out += fmt.Sprintf(" hw=%d", a.HighWatermark)
		if a.More {
			out += " more"
		}
	case mail.AnswerListOffset:
		out += fmt.Sprintf(" %d", a.Offset)
		if a.Timestamp >= 0 {
			out += " with a time"
		}
	case mail.AnswerTrim, mail.AnswerDescribe:
		out += fmt.Sprintf(" start=%d hw=%d end=%d", a.LogStartOffset, a.HighWatermark, a.LogEndOffset)
	case mail.AnswerAdmin:
		if body, ok := a.Body.(*proto.InitProducerResponse); ok {
			out += fmt.Sprintf(" producer=%d", body.ProducerID)
		}
	}
	return out
}

// args are the words behind a command.
type args struct {
	s *scenario
	d *datadriven.TestData
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) text(key, otherwise string) string {
	if !a.has(key) {
		return otherwise
	}
	var v string
	a.d.ScanArgs(a.s.t.(*testing.T), key, &v)
	return v
}

func (a args) number(key string, otherwise int64) int64 {
	v, err := strconv.ParseInt(a.text(key, strconv.FormatInt(otherwise, 10)), 10, 64)
	if err != nil {
		a.d.Fatalf(a.s.t.(*testing.T), "%s: %v", key, err)
	}
	return v
}

func (a args) duration(key string) int64 {
	v, err := time.ParseDuration(a.text(key, "0s"))
	if err != nil {
		a.d.Fatalf(a.s.t.(*testing.T), "%s: %v", key, err)
	}
	return int64(v)
}

func (a args) partition() core.PartitionID {
	name, number, _ := strings.Cut(a.d.CmdArgs[0].Key, "/")
	topic := a.s.view.TopicByName(name)
	n, err := strconv.Atoi(number)
	if topic == nil || err != nil || n >= len(topic.Partitions) {
		a.d.Fatalf(a.s.t.(*testing.T), "no partition %s", a.d.CmdArgs[0].Key)
	}
	return topic.Partitions[n].ID
}

func (a args) settings(skip string) (set []proto.TopicConfig) {
	for _, arg := range a.d.CmdArgs[1:] {
		if arg.Key != skip {
			set = append(set, proto.TopicConfig{Key: arg.Key, Value: arg.FirstVal(a.s.t.(*testing.T))})
		}
	}
	return set
}

func (s *scenario) command(d *datadriven.TestData) {
	a := args{s, d}
	r := mail.Request{LeaderEpoch: core.LeaderEpoch(a.number("leader", -1)), Conn: mail.ConnRef{Slot: uint32(a.number("conn", 0))}}
	r.ID = uint64(a.number("id", 0))
	switch d.Cmd {
	case "create":
		r.Kind, r.Body = mail.RequestAdmin, &proto.CreateTopicRequest{Name: d.CmdArgs[0].Key, Partitions: uint32(a.number("partitions", 1)), Configs: a.settings("partitions")}
	case "alter":
		r.Kind, r.Body = mail.RequestAdmin, &proto.AlterTopicRequest{Name: d.CmdArgs[0].Key, Partitions: uint32(a.number("partitions", 0)), Set: a.settings("partitions")}
	case "delete":
		r.Kind, r.Body = mail.RequestAdmin, &proto.DeleteTopicRequest{Name: d.CmdArgs[0].Key}
	case "producer":
		r.Kind, r.Body = mail.RequestAdmin, &proto.InitProducerRequest{}
	case "produce":
		codec, err := proto.ParseCodec(a.text("codec", "none"))
		if err != nil {
			d.Fatalf(s.t.(*testing.T), "%v", err)
		}
		p := s.produceRequest(a.partition(), batchSpec{
			records: int(a.number("records", 1)), value: int(a.number("value", 10)), noKeys: a.has("keyless"), codec: codec,
			producer: a.number("producer", -1), epoch: int16(a.number("epoch", 0)), sequence: int32(a.number("sequence", 0)),
		})
		p.LeaderEpoch, p.Conn, p.ID = r.LeaderEpoch, r.Conn, r.ID
		p.Acks, p.Wait = uint8(a.number("acks", 1)), a.duration("wait")
		r = p
	case "fetch":
		r.Kind, r.Partition, r.Offset = mail.RequestFetch, a.partition(), core.Offset(a.number("offset", 0))
		r.LastEpoch, r.Wait = core.LeaderEpoch(a.number("last", -1)), a.duration("wait")
		r.BytesMin, r.BytesMax, r.RecordsMax = uint32(a.number("min", 0)), uint32(a.number("max", 0)), uint32(a.number("records", 0))
	case "subscribe":
		r.Kind, r.Partition, r.Offset, r.LastEpoch = mail.RequestSubscribe, a.partition(), core.Offset(a.number("offset", 0)), -1
	case "unsubscribe":
		r.Kind, r.Partition = mail.RequestUnsubscribe, a.partition()
	case "credit":
		r.Kind, r.Bytes = mail.RequestCredit, uint32(a.number("bytes", 0))
	case "disconnect":
		r.Kind = mail.RequestDisconnect
	case "list":
		r.Kind, r.Partition = mail.RequestListOffset, a.partition()
		switch {
		case a.has("latest"):
			r.Lookup = mail.LookupLatest
		case a.has("max"):
			r.Lookup = mail.LookupMaxTimestamp
		case a.has("time"):
			r.Lookup, r.Timestamp = mail.LookupTime, s.clock.wall/1e6+a.number("time", 0)
		}
	case "trim":
		r.Kind, r.Partition, r.Offset = mail.RequestTrim, a.partition(), core.Offset(a.number("before", -1))
	case "describe":
		r.Kind, r.Partition = mail.RequestDescribe, a.partition()
	case "hold":
		s.held = true
		return
	case "release":
		s.held = false
		s.settle()
		return
	case "settle":
		s.settle()
		return
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(s.t.(*testing.T), "%v", err)
		}
		s.clock.advance(by)
		s.settle()
		return
	case "return":
		for _, answer := range s.parcels {
			s.giveBack(answer.Partition, answer.Parcel)
		}
		s.parcels = nil
		s.settle()
		return
	case "crash":
		s.parcels = nil
		s.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
		return
	case "stop":
		s.stop()
		s.parcels = nil
		s.restart(s.disks[0].folder.fs.Crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop}))
		return
	default:
		d.Fatalf(s.t.(*testing.T), "unknown command")
	}
	s.send(&r)
	s.settle()
}

// The same calls give the same answers, byte for byte: one run against another.
func TestSameSeedSameTrace(t *testing.T) {
	run := func(seed uint64) (uint64, int) {
		n := newNode(t, 3)
		s := &scenario{node: n}
		random := rand.New(rand.NewPCG(seed, 1))
		topic := n.create("t", 12, "durability", []string{"sync", "batch", "none"}[random.IntN(3)])
		trace := fnv.New64a()
		answers := 0
		var parcels []mail.Answer
		for range 400 {
			id := topic.Partitions[random.IntN(12)].ID
			conn := mail.ConnRef{Slot: uint32(random.IntN(5))}
			switch random.IntN(9) {
			case 0, 1, 2:
				size := 2 << 10
				if random.IntN(8) == 0 {
					size = 100 << 10 // large enough to go straight to its segment
				}
				r := n.produceRequest(id, batchSpec{records: 1 + random.IntN(3), value: random.IntN(size), producer: -1})
				r.Conn = conn
				n.send(&r)
			case 3, 4:
				f := n.fetchRequest(id, 0)
				f.Conn, f.BytesMin, f.Wait = conn, uint32(random.IntN(1<<20)), int64(random.IntN(1e8))
				n.send(&f)
			case 5:
				n.send(&mail.Request{Kind: mail.RequestSubscribe, ID: 1, Conn: conn, Partition: id, LeaderEpoch: -1, LastEpoch: -1})
				n.owner(id).Receive(&mail.Request{Kind: mail.RequestCredit, ID: 1, Conn: conn, Bytes: uint32(random.IntN(1 << 19))})
			case 6:
				n.clock.advance(time.Duration(random.IntN(2e8)))
			case 7:
				for _, a := range parcels {
					n.giveBack(a.Partition, a.Parcel)
				}
				parcels = nil
			case 8:
				if random.IntN(10) == 0 {
					for _, m := range n.machines {
						m.Receive(&mail.Request{Kind: mail.RequestDisconnect, Conn: conn})
					}
				}
			}
			for range random.IntN(3) {
				n.turn()
			}
			for _, a := range n.answers() {
				answers++
				fmt.Fprintln(trace, s.describe(&a), a.Partition, a.Conn)
				if a.Parcel != nil {
					parcels = append(parcels, a)
				}
			}
		}
		return trace.Sum64(), answers
	}
	for seed := range uint64(2) {
		first, answers := run(seed)
		second, _ := run(seed)
		if first != second || answers < 100 {
			t.Errorf("seed %d: traces %x and %x of %d answers", seed, first, second, answers)
		}
	}
}
