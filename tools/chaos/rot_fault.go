package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// rotFault changes bits of stored bytes while the broker is down. The start succeeds; a record of what was changed is
// called damaged with its range, or it is right; everything else is served. The ledgers hold the broker to that, and the
// topics are made anew afterwards.
var rotFault = diskFault{"rot", "bits of stored segments, indexes and states change while the broker is down", func(ctx context.Context, p *plan) error {
	s, err := p.anOldSegment(ctx)
	if err != nil {
		return err
	}
	// After a clean stop everything stored is known durable, so that all of it has to be missed.
	if err := p.process.Terminate(); err != nil {
		return err
	}
	folder := s.path[:strings.LastIndexByte(s.path, '/')+1]
	file := []string{"*.log", "*.log", "*.index", "*.state", "*"}[p.random.IntN(5)]
	answer, err := p.disk.tell(fmt.Sprintf("rot %d %d %s%s", 1+p.random.IntN(4), p.random.Uint32(), folder, file))
	if err != nil && file != "*.state" && file != "*.index" { // there may be none of these yet
		dirty, _ := p.disk.askLine("dirty")
		return errors.Join(err, fmt.Errorf("not durable after a clean stop: %s", dirty))
	}
	var places []struct {
		Path   string
		Offset int64
	}
	if err == nil {
		if err := json.Unmarshal([]byte(answer), &places); err != nil {
			return err
		}
		for _, l := range p.cast.ledgers[s.ledger.topic] {
			l.mu.Lock()
			l.hurt = l.hurt || l == s.ledger
			l.mu.Unlock()
		}
	}
	mark, err := p.markLog()
	if err != nil {
		return err
	}
	if err := p.start(); err != nil {
		return fmt.Errorf("start after %v changed: %w", places, err)
	}
	logs := 0
	for _, place := range places {
		if strings.HasSuffix(place.Path, ".log") {
			logs++
		}
	}
	_, gaps, err := p.readThrough(ctx, s.ledger)
	if err != nil {
		return fmt.Errorf("after %v changed: %w", places, err)
	}
	p.say("rot: %v changed, %v called damaged", places, gaps)
	s.ledger.rotted += logs // those of earlier in the round are still there
	if len(gaps) > s.ledger.rotted {
		return fmt.Errorf("%d bits of segments changed (now %v), and %d ranges are called damaged: %v", s.ledger.rotted, places, len(gaps), gaps)
	}
	if logs == 0 {
		return nil // an index or a state that is not read again rots unseen, and is missed by nobody
	}
	if err := p.surfaced(mark, "damage"); err != nil {
		return fmt.Errorf("%v changed, and %w", places, err)
	}
	return nil
}}
