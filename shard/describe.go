package shard

import "github.com/pulsemq/pulsemq/ring/mail"

// describe answers with a partition's offsets and size. A partition that cannot
// serve says why.
func (m *Machine) describe(r *mail.Request) {
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	m.answer = mail.Answer{
		Kind: mail.AnswerDescribe, Conn: r.Conn, ID: r.ID, Partition: p.id, LeaderEpoch: p.leaderEpoch(),
		Offset: -1, Timestamp: -1, LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(),
		LogEndOffset: p.log.EndOffset(), SizeBytes: p.log.SizeBytes(), Received: r.Received,
	}
	m.send(r.Reactor)
}
