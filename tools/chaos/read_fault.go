package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// readFaults fail reads of one segment that is not written any more, or make their bytes wrong. The records there are an
// error that names their range, or they are right; those before and after are served; once the disk is whole, all are.
var readFaults = []diskFault{
	{"read-error", "EIO on every read of one segment", func(ctx context.Context, p *plan) error { return p.failReads(ctx, "fail read 1+ EIO %s", true) }},
	{"read-flip", "one bit wrong in some of the reads of one segment", func(ctx context.Context, p *plan) error {
		return p.failReads(ctx, fmt.Sprintf("flip read 500%%%%%d %%s", p.random.Uint32()), false)
	}},
}

// oldSegment is a segment behind which its partition has others.
type oldSegment struct {
	ledger *ledger
	path   string // within the disk
	base   int64
	next   int64 // the next segment's base
}

// oldSegments are those of topics from which nothing is removed.
func (p *plan) oldSegments(ctx context.Context) (found []oldSegment, err error) {
	for i := range p.cast.roles {
		r := &p.cast.roles[i]
		if r.trims || r.keys > 0 || r.config["retention.bytes"] != "" || r.config["durability"] != "" {
			continue
		}
		d, err := p.cast.client.Admin().DescribeTopic(ctx, r.name)
		if err != nil {
			return nil, err
		}
		for _, l := range p.cast.ledgers[r.name] {
			folder := filepath.Join(p.dataRoot(), "data", "topics", d.ID.String(), strconv.Itoa(int(l.partition)))
			entries, err := os.ReadDir(folder)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			var logs []oldSegment
			for _, e := range entries { // sorted by their names, and so by their offsets
				base, _, ok := strings.Cut(e.Name(), "-")
				if !ok || filepath.Ext(e.Name()) != ".log" {
					continue
				}
				s := oldSegment{ledger: l, path: "/" + d.ID.String() + "/" + strconv.Itoa(int(l.partition)) + "/" + e.Name()}
				if s.base, err = strconv.ParseInt(base, 10, 64); err != nil {
					return nil, err
				}
				if n := len(logs); n > 0 {
					logs[n-1].next = s.base
				}
				logs = append(logs, s)
			}
			if len(logs) > 1 {
				found = append(found, logs[:len(logs)-1]...)
			}
		}
	}
	return found, nil
}

// anOldSegment waits until there is one, and chooses.
func (p *plan) anOldSegment(ctx context.Context) (oldSegment, error) {
	for end := time.Now().Add(ruleWait); ; time.Sleep(50 * time.Millisecond) {
		segments, err := p.oldSegments(ctx)
		if err != nil {
			return oldSegment{}, err
		}
		if len(segments) > 0 {
			return segments[p.random.IntN(len(segments))], nil
		}
		if time.Now().After(end) {
			return oldSegment{}, fmt.Errorf("no partition has a second segment after %v of load", ruleWait)
		}
	}
}

func (p *plan) failReads(ctx context.Context, rule string, every bool) error {
	// The newest records are served from memory: a broker that has just started has none of them there.
	if err := p.process.Terminate(); err != nil {
		return err
	}
	if err := p.start(); err != nil {
		return err
	}
	s, err := p.anOldSegment(ctx)
	if err != nil {
		return err
	}
	mark, err := p.markLog()
	if err != nil {
		return err
	}
	if _, err := p.disk.arm(rule, s.path); err != nil {
		return err
	}
	records, gaps, err := p.cast.readThrough(ctx, s.ledger)
	counts, disarm := p.disk.disarm()
	if err := errors.Join(err, disarm); err != nil {
		return err
	}
	if every && len(counts) == 0 {
		return fmt.Errorf("%w for %s while the partition was read", errNotHit, s.path)
	}
	if err := s.hold(records, gaps, every); err != nil {
		return fmt.Errorf("reads of %s: %w", s.path, err)
	}
	if len(gaps) > 0 {
		if err := p.surfaced(mark, s.path[1:]); err != nil {
			return err
		}
	}
	return p.process.Alive()
}

// hold says what was wrong with reading a partition while one segment of it was failing.
func (s *oldSegment) hold(records []found, gaps []gap, must bool) error {
	for _, g := range gaps {
		if g.base < s.base || g.next > s.next || g.base >= g.next {
			return fmt.Errorf("offsets [%d, %d) are called damaged; only [%d, %d) could not be read", g.base, g.next, s.base, s.next)
		}
	}
	if must && len(gaps) == 0 {
		return errors.New("reads failed, and no offset is called damaged")
	}
	at := map[int64]stamp{}
	for _, r := range records {
		if r.err != nil {
			return fmt.Errorf("offset %d: %w", r.offset, r.err)
		}
		at[r.offset] = r.stamp
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	last := int64(0)
	if len(records) > 0 {
		last = records[len(records)-1].offset
	}
	for offset, want := range s.ledger.acked {
		got, ok := at[offset]
		named := false
		for _, g := range gaps {
			named = named || g.base <= offset && offset < g.next
		}
		if ok && got != want || !ok && !named && offset < last {
			return fmt.Errorf("offset %d holds %v (there: %v, called damaged: %v); acknowledged there was %v", offset, got, ok, named, want)
		}
	}
	return nil
}

// readThrough reads a partition that others write to, on behind what is called damaged.
func (c *cast) readThrough(ctx context.Context, l *ledger) (records []found, gaps []gap, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	k, err := c.client.NewConsumer(pulsemq.ConsumerStopAtEnd(), pulsemq.ConsumerSkipCorrupt(true))
	if err != nil {
		return nil, nil, err
	}
	defer k.Close()
	if err := k.AssignPartition(ctx, l.topic, l.partition, pulsemq.StartOffset(0)); err != nil {
		return nil, nil, err
	}
	for r, err := range k.Records(ctx) {
		var about *pulsemq.PartitionError
		if errors.As(err, &about) && !about.Stopped && errors.Is(err, pulsemq.ErrCorruptRecord) {
			gaps = append(gaps, gap{about.Base, about.Next})
			continue
		}
		if err != nil {
			return records, gaps, fmt.Errorf("read %s/%d: %w", l.topic, l.partition, err)
		}
		s, err := stampOf(r.Value)
		records = append(records, found{r.Offset, s, err})
	}
	if len(records) == 0 && len(gaps) == 0 {
		return nil, nil, fmt.Errorf("read %s/%d: there is nothing", l.topic, l.partition)
	}
	return records, gaps, nil
}
