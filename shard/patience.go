package shard

import "github.com/pulsemq/pulsemq/ring/mail"

// patience is a request that waits for a disk or for other shards, with the time
// after which its client is told that nothing came of it so far. What was begun
// for it goes on.
type patience struct {
	timer   timer
	machine *Machine
	request mail.Request
	over    bool // the client has been told
}

// await starts the time of a request.
func (m *Machine) await(p *patience, r *mail.Request) {
	p.machine, p.request = m, *r
	wait := r.Wait
	if wait <= 0 {
		wait = int64(m.options.RequestTimeout)
	}
	m.wheel.arm(&p.timer, p, max(r.Received, m.now-wait)+wait)
}

// end stops the time. It returns false when the client was told already.
func (p *patience) end() bool {
	p.machine.wheel.disarm(&p.timer)
	return !p.over
}

func (p *patience) expire() {
	p.over = true
	p.machine.refuseRequest(&p.request, errTimedOutRequest)
}
