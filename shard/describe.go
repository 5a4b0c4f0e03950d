package shard

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// describedDamagesMax bounds the damaged ranges that a partition's description
// lists; how many there are is said beside them.
const describedDamagesMax = 100

// describe answers with a partition's offsets and size, and with how whole its
// records are known to be; RequestVerify first has them read again. A partition
// that cannot serve says why.
func (m *Machine) describe(r *mail.Request) {
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	if r.Kind == mail.RequestVerify {
		m.store.Verify(p.log)
	}
	m.answer = mail.Answer{
		Kind: mail.AnswerDescribe, Conn: r.Conn, ID: r.ID, Partition: p.id, LeaderEpoch: p.leaderEpoch(),
		Offset: -1, Timestamp: -1, LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(),
		LogEndOffset: p.log.EndOffset(), SizeBytes: p.log.SizeBytes(), Received: r.Received, Body: partitionStorage(p.log),
	}
	m.send(r.Reactor)
}

// partitionStorage is what is known of a log's records, for the wire. Ranges that
// lost nothing a consumer could read, or that lie below the log start, are left out.
func partitionStorage(log *segment.Log) *proto.PartitionStorage {
	v := log.Verification()
	s := &proto.PartitionStorage{VerifiedMs: -1, Verifying: v.Asked, SealedBytes: uint64(max(v.SealedBytes, 0))}
	if v.Since > 0 {
		s.VerifiedMs = v.Since / int64(time.Millisecond)
	}
	start := log.StartOffset()
	for _, d := range log.Damaged() {
		if d.Next <= start || d.Start >= d.Next {
			continue
		}
		if s.DamagesTotal++; len(s.Damages) < describedDamagesMax {
			s.Damages = append(s.Damages, proto.StoredDamage{
				Range:   proto.DamagedRange{BaseOffset: int64(max(d.Start, start)), NextOffset: int64(d.Next)},
				FoundMs: d.Found / int64(time.Millisecond), File: d.File, Text: d.Cause.Error(),
			})
		}
	}
	return s
}
