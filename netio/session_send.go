package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// copyBytesMax is up to where record batches are copied behind their frame's
	// fields: one write of few large slices beats one of many small ones.
	copyBytesMax = 8 << 10

	// controlBytesMax bounds the answers without records that wait in front of a
	// write: beyond it they are written at once.
	controlBytesMax = 256 << 10
)

// outgoing is an answer with record batches that waits for its turn.
type outgoing struct {
	answer mail.Answer
	shard  core.ShardID
	cookie uint32       // of a push
	topic  core.TopicID // of a push
	number uint32       // of a push
}

// bytes is the size of the record batches.
func (o *outgoing) bytes() int {
	if o.answer.Parcel == nil {
		return 0
	}
	return o.answer.Parcel.Bytes
}

// sender is what a session has to say.
//
// Answers without records (control) go before those with records (data). Control
// is written at the end of each event. Data follows one chunk at a time, the next
// when the previous has left for the socket, so that what one connection keeps
// in memory beyond its parcels is about one chunk.
//
// Invariant: dataBytes is the sum over data; control is nil or borrowed from the reactor.
type sender struct {
	control   []byte
	data      core.Queue[outgoing]
	dataBytes int

	// written counts the bytes handed to the connection, taken those that its socket
	// had taken at the last look, stuckSince when it last had taken any.
	written    int64
	taken      int64
	stuckSince int64
}

func (o *sender) empty() bool { return len(o.control) == 0 && o.data.Len() == 0 }

// encodeScratch holds the messages that are encoded or decoded again and again,
// so that passing them as interfaces allocates nothing.
type encodeScratch struct {
	produceRequest  proto.ProduceRequest
	fetchRequest    proto.FetchRequest
	produceResponse proto.ProduceResponse
	fetchResponse   proto.FetchResponse
	deliverPush     proto.DeliverPush
	leasedPush      proto.LeasedPush
	deleteRecords   proto.DeleteRecordsResponse
	ping            proto.PingRequest
	pong            proto.PingResponse
	creditRequest   proto.CreditRequest
	creditPush      proto.CreditPush
}

// touch has the session flushed at the end of the event.
func (s *Session) touch() {
	if !s.dirty {
		s.dirty = true
		s.reactor.dirty = append(s.reactor.dirty, s)
	}
}

// push queues a frame without record batches.
func (s *Session) push(id uint64, m proto.Message) {
	if s.state >= stateEnding {
		return
	}
	if s.out.control == nil {
		s.out.control = s.reactor.buffer()
	}
	s.out.control = proto.AppendFrame(s.out.control, id, m)
	s.reactor.stats.FramesSent++
	s.touch()
	if len(s.out.control) >= controlBytesMax {
		s.flushControl()
	}
}

// pushData queues an answer with record batches.
func (s *Session) pushData(o outgoing) {
	s.out.data.Push(o)
	s.out.dataBytes += o.bytes()
	s.touch()
}

// flush writes what may be written now: all of control, and data when the socket
// has taken the data before.
func (s *Session) flush() {
	if s.state == stateClosed {
		return
	}
	if s.out.data.Len() == 0 || s.conn.Buffered() > 0 {
		s.flushControl()
	} else {
		s.flushData()
	}
	if s.state == stateOpen && s.conn.Buffered() > 2*s.reactor.settings.SendBufferMax {
		// Answers without records cannot be held back; a client that goes on asking
		// without reading is not waited for.
		s.endSlow(s.conn.Buffered())
		s.flushControl()
	}
	if s.state == stateEnding {
		s.halfClose()
	}
	if s.state != stateClosed && (s.conn.Buffered() > 0 || s.out.data.Len() > 0) {
		s.block()
		if s.conn.Buffered() == 0 {
			// The next chunk may go at once, after the others have had their turn.
			s.reactor.links[0].Reactor.Kick()
		}
	}
}

// block has the reactor look again whether the socket has taken the output.
func (s *Session) block() {
	if !s.blocked {
		s.blocked = true
		s.out.stuckSince = s.reactor.now
		s.out.taken = s.out.written - int64(s.conn.Buffered())
		s.reactor.blocked = append(s.reactor.blocked, s)
	}
}

// unblocked is called when the socket has taken everything.
func (s *Session) unblocked() {
	s.touch()
	s.unpark()
	s.lendAll()
}

func (s *Session) flushControl() {
	if len(s.out.control) == 0 {
		return
	}
	control := s.out.control
	s.out.control = nil
	s.reactor.stats.BytesSent += uint64(len(control))
	s.out.written += int64(len(control))
	s.wrote(s.conn.Write(control))
	s.reactor.recycle(control)
}

// wrote looks at the result of a write.
func (s *Session) wrote(err error) {
	if err == nil || s.state == stateClosed {
		return
	}
	// The connection is gone or will be at once; there is nobody to tell.
	s.reactor.stats.WritesFailed++
	s.dropOutput()
	if s.state < stateEnding {
		s.dropInput()
		s.state = stateEnding
		s.ended = s.reactor.now - lingerTime // the next tick closes it
	}
}

// flushData writes control and the next chunk of data as one write. A frame that
// has begun is written to its end, in several writes when it has too many slices:
// nothing may come between its parts.
func (s *Session) flushData() {
	r := s.reactor
	buf := s.out.control
	s.out.control = nil
	if buf == nil {
		buf = r.buffer()
	}
	slices, mark, bytes, total := r.slices[:0], 0, 0, 0
	var err error
	write := func() {
		if len(buf) > mark {
			slices = append(slices, buf[mark:len(buf):len(buf)])
			mark = len(buf)
		}
		if len(slices) == 0 || err != nil {
			return
		}
		for _, slice := range slices {
			total += len(slice)
		}
		err = s.conn.Writev(slices)
		slices = r.slices[:0]
	}
	first := true
	for s.out.data.Len() > 0 && err == nil && s.state != stateClosed {
		size := s.out.data.Front().bytes()
		if !first && bytes+size > core.AnswerChunkBytesMax {
			break
		}
		first = false
		// Taken out of the queue before anything is written: a failed write ends in
		// Lost, which returns what is queued. The parcel goes back after the write,
		// which copies what the socket does not take.
		o := s.out.data.Pop()
		s.out.dataBytes -= size
		r.returns = append(r.returns, returning{o.shard, o.answer.Parcel})
		before := len(buf)
		buf = s.appendHead(buf, &o, size)
		bytes += len(buf) - before + size
		for i := 0; size > 0 && i < len(o.answer.Parcel.Slices); i++ {
			slice := o.answer.Parcel.Slices[i]
			if size <= copyBytesMax {
				buf = append(buf, slice...)
				continue
			}
			// Room for the copied bytes before this slice, the slice, and those at the end.
			if len(slices)+3 > core.AnswerSlicesMax {
				write()
			}
			if len(buf) > mark {
				slices = append(slices, buf[mark:len(buf):len(buf)])
				mark = len(buf)
			}
			slices = append(slices, slice)
		}
		r.stats.FramesSent++
		r.stats.BatchBytesSent += uint64(size)
	}
	write()
	clear(r.slices[:])
	for i := range r.returns {
		r.giveBack(r.returns[i].shard, r.returns[i].parcel)
	}
	clear(r.returns)
	r.returns = r.returns[:0]
	r.stats.BytesSent += uint64(total)
	s.out.written += int64(total)
	r.recycle(buf)
	s.wrote(err)
}

// returning is a parcel that goes back to its shard once it is written.
type returning struct {
	shard  core.ShardID
	parcel *mail.Parcel
}

// appendHead appends a frame's header and everything before its record batches.
func (s *Session) appendHead(b []byte, o *outgoing, size int) []byte {
	a := &o.answer
	header := proto.FrameHeader{Answer: true, RequestID: a.ID}
	var start int
	switch a.Kind {
	case mail.AnswerFetch:
		header.Command = proto.CommandFetch
		header.Version = proto.CommandFetch.Version()
		m := &s.reactor.encode.fetchResponse
		*m = proto.FetchResponse{
			LeaderEpoch:    int32(a.LeaderEpoch),
			HighWatermark:  int64(a.HighWatermark),
			LogStartOffset: int64(a.LogStartOffset),
			LogEndOffset:   int64(a.LogEndOffset),
			More:           a.More,
		}
		b, start = proto.BeginFrame(b, header)
		b = m.AppendHead(b)
	case mail.AnswerLeased:
		header.Command = proto.CommandLeased
		header.Version = proto.CommandLeased.Version()
		m := &s.reactor.encode.leasedPush
		*m = proto.LeasedPush{TopicID: o.topic, Partition: o.number, LeaderEpoch: int32(a.LeaderEpoch), Error: a.Err}
		if a.Err == nil {
			leased := a.Body.(*mail.Leased)
			m.TimeoutMs, m.Leases = leased.TimeoutMillis, leased.Ranges
		}
		b, start = proto.BeginFrame(b, header)
		b = m.AppendHead(b)
		*m = proto.LeasedPush{} // the ranges go back with the parcel
	default:
		header.Command = proto.CommandDeliver
		header.Version = proto.CommandDeliver.Version()
		m := &s.reactor.encode.deliverPush
		*m = proto.DeliverPush{
			TopicID:        o.topic,
			Partition:      o.number,
			Cookie:         o.cookie,
			LeaderEpoch:    int32(a.LeaderEpoch),
			HighWatermark:  int64(a.HighWatermark),
			LogStartOffset: int64(a.LogStartOffset),
			Error:          a.Err,
		}
		b, start = proto.BeginFrame(b, header)
		b = m.AppendHead(b)
	}
	proto.EndFrame(b, start, size)
	return b
}

// dropOutput forgets what was not written and returns the parcels.
func (s *Session) dropOutput() {
	if s.out.control != nil {
		s.reactor.recycle(s.out.control)
		s.out.control = nil
	}
	s.dropData()
}

// dropData forgets the answers with records.
func (s *Session) dropData() {
	for s.out.data.Len() > 0 {
		o := s.out.data.Pop()
		s.reactor.giveBack(o.shard, o.answer.Parcel)
	}
	s.out.data = core.Queue[outgoing]{}
	s.out.dataBytes = 0
	s.parked = core.Queue[parkedFetch]{}
	s.dropHeld()
}

// full says whether the connection has as much output waiting as it may.
func (s *Session) full() bool {
	return s.out.dataBytes+s.conn.Buffered() > s.reactor.settings.SendBufferMax
}

// halfCloser is a connection that can say that no more bytes will come.
type halfCloser interface {
	CloseWrite()
}

// halfClose follows the last frame once the socket has taken it.
func (s *Session) halfClose() {
	if s.halfClosed || s.conn.Buffered() > 0 {
		return
	}
	s.halfClosed = true
	if c, ok := s.conn.(halfCloser); ok {
		c.CloseWrite()
	}
}
