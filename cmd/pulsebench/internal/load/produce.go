package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/link"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

// dialTimeout bounds connecting and shaking hands.
const dialTimeout = 10 * time.Second

func dial(ctx context.Context, address, version string) (*link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return link.Dial(ctx, address, version)
}

// SendingSpec says what senders do together.
type SendingSpec struct {
	Topic       *Topic
	Version     string // of this program, for HELLO
	Template    *payload.Template
	Ledger      *ledger.Ledger
	Connections int
	InFlight    int
	Acks        proto.Acks
	Rate        float64       // records per second; 0 flat out
	Duration    time.Duration // 0: until Records are stored
	Records     int64         // rounded up to whole batches; 0: for Duration
	Clock       Clock
}

// Sending is a set of senders.
type Sending struct {
	spec    SendingSpec
	links   []*link.Link
	shares  []Share
	senders []*Sender
	tallies []*Tally
	start   int64
}

// OpenSending connects and checks that the broker takes such batches.
func OpenSending(ctx context.Context, spec SendingSpec) (*Sending, error) {
	shares, err := spec.Topic.SharesForSending(spec.Connections)
	if err != nil {
		return nil, err
	}
	limits := &spec.Topic.Hello.Limits
	if n := spec.Template.BatchBytes(); n > int(limits.BatchBytesMax) {
		return nil, fmt.Errorf("batches of %d bytes: the broker takes at most %d; lower --batch-records or --record-size", n, limits.BatchBytesMax)
	}
	if n := spec.Template.Spec().Records; n > int(limits.BatchRecordsMax) {
		return nil, fmt.Errorf("batches of %d records: the broker takes at most %d; lower --batch-records", n, limits.BatchRecordsMax)
	}
	s := &Sending{spec: spec, shares: shares}
	for _, share := range shares {
		l, err := dial(ctx, share.Leader, spec.Version)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.links = append(s.links, l)
	}
	s.prepare()
	return s, nil
}

// prepare makes the senders. Their schedules begin with Run.
func (s *Sending) prepare() {
	var budget *Budget
	if s.spec.Records > 0 {
		perBatch := int64(s.spec.Template.Spec().Records)
		budget = NewBudget((s.spec.Records + perBatch - 1) / perBatch)
	}
	for i, share := range s.shares {
		sender := NewSender(SenderSpec{
			Connection: Connection{Link: s.links[i], TopicID: s.spec.Topic.ID, Share: share, Clock: s.spec.Clock},
			Template:   s.spec.Template,
			Stream:     s.spec.Ledger.Stream(i),
			Producer:   i,
			Acks:       s.spec.Acks,
			InFlight:   s.spec.InFlight,
			Budget:     budget,
		})
		s.senders = append(s.senders, sender)
		s.tallies = append(s.tallies, sender.Tally())
	}
}

// schedule begins the schedules of all senders now.
func (s *Sending) schedule() {
	s.start = s.spec.Clock()
	pace := NewPace(s.start, s.spec.Duration, s.spec.Rate, s.spec.Template.Spec().Records, s.spec.Connections)
	for i, sender := range s.senders {
		sender.spec.Schedule = pace.Schedule(i)
	}
}

// Start is when the first request was due.
func (s *Sending) Start() int64 { return s.start }

// Tallies are those of the connections.
func (s *Sending) Tallies() []*Tally { return s.tallies }

// Run sends until the schedule or the records end, or one sender fails.
func (s *Sending) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.schedule()
	var running sync.WaitGroup
	for _, sender := range s.senders {
		running.Go(func() {
			if err := sender.Run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	for _, sender := range s.senders {
		sender.finish()
	}
	return context.Cause(ctx)
}

// Close closes the connections.
func (s *Sending) Close() {
	for _, l := range s.links {
		l.Close()
	}
}
