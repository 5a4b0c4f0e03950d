package segment

import "sync"

// scannerPool keeps the scanners of a start, each with its window, for the logs that are
// opened next. Several are looked at together.
type scannerPool struct {
	mu    sync.Mutex
	spare []*Scanner
}

func (p *scannerPool) take() *Scanner {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.spare)
	if n == 0 {
		return &Scanner{}
	}
	sc := p.spare[n-1]
	p.spare = p.spare[:n-1]
	return sc
}

func (p *scannerPool) give(sc *Scanner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare = append(p.spare, sc)
}
