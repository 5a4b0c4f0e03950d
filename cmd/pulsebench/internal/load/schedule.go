package load

import "time"

// Schedule says when the requests of one connection are due.
//
// At a rate, requests of all connections are due one after the other at equal distances, and each connection has every
// n-th of them. Flat out, interval is 0 and a request is due whenever there is room for it.
type Schedule struct {
	start    int64 // on the run's clock: when the first request of this connection is due
	interval int64 // nanoseconds between requests of this connection; 0 flat out
	end      int64 // nothing is due from here on
	sent     int64 // requests that have been sent
}

// Pace is what the schedules of all connections have in common.
type Pace struct {
	Start       int64
	Duration    time.Duration
	Rate        float64 // records per second over all connections; 0 flat out
	Records     int     // per request
	Connections int
}

// foreverMax stands for the duration of a run that only its records end.
const foreverMax = time.Duration(1 << 61)

// NewPace begins at start; a duration of 0 has no end.
func NewPace(start int64, duration time.Duration, rate float64, records, connections int) Pace {
	if duration == 0 {
		duration = foreverMax
	}
	return Pace{Start: start, Duration: duration, Rate: rate, Records: records, Connections: connections}
}

// Schedule is that of one connection.
func (p Pace) Schedule(connection int) Schedule {
	s := Schedule{start: p.Start, end: p.Start + int64(p.Duration)}
	if p.Rate > 0 {
		between := float64(p.Records) / p.Rate * float64(time.Second)
		s.interval = max(int64(between*float64(p.Connections)), 1)
		s.start += int64(between * float64(connection))
	}
	return s
}

// Next is when the next request is due, and whether that is now.
func (s *Schedule) Next(now int64) (due int64, ready bool) {
	if s.interval == 0 {
		return now, now < s.end
	}
	due = s.start + s.sent*s.interval
	return due, due <= now && now < s.end
}

// Sent moves on to the next request.
func (s *Schedule) Sent() { s.sent++ }

// Over reports whether nothing is due any more: the end has come, also for what could not be sent in time.
func (s *Schedule) Over(now int64) bool { return now >= s.end }

// Wake is the first time after now at which a request becomes due; false when none does.
func (s *Schedule) Wake(now int64) (int64, bool) {
	if s.interval == 0 {
		return 0, false
	}
	at := s.start
	if now >= s.start {
		at += ((now-s.start)/s.interval + 1) * s.interval
	}
	return at, at < s.end
}

// Late calls add with the due time of each request that was due before the end and has not been sent.
func (s *Schedule) Late(now int64, add func(due int64)) {
	if s.interval == 0 {
		return
	}
	for due := s.start + s.sent*s.interval; due < min(now, s.end); due += s.interval {
		add(due)
	}
}
