package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progressEvery is how often the line is drawn anew.
const progressEvery = 500 * time.Millisecond

// Progress is the line on a terminal that shows what is going on.
type Progress struct {
	out     io.Writer // nil: nobody is looking
	stop    chan struct{}
	stopped sync.WaitGroup
}

// Terminal is w when it is a terminal, else nil.
func Terminal(w io.Writer) io.Writer {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return file
		}
	}
	return nil
}

// StartProgress begins to draw. count says how many records and refusals there are by now; it is called from another
// goroutine.
func StartProgress(out io.Writer, what string, count func() (records, errors int64)) *Progress {
	p := &Progress{out: out, stop: make(chan struct{})}
	if out == nil {
		return p
	}
	p.stopped.Go(func() { p.draw(what, count) })
	return p
}

// Stop takes the line away.
func (p *Progress) Stop() {
	close(p.stop)
	p.stopped.Wait()
}

func (p *Progress) draw(what string, count func() (records, errors int64)) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	start, before, width := time.Now(), int64(0), 0
	last := start
	for {
		select {
		case <-p.stop:
			fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", width))
			return
		case now := <-ticker.C:
			records, refused := count()
			line := fmt.Sprintf("%s  %3.0f s  %s records  %s/s", what, now.Sub(start).Seconds(), grouped(records),
				grouped(int64(float64(records-before)/now.Sub(last).Seconds())))
			if refused > 0 {
				line += fmt.Sprintf("  %s refused", grouped(refused))
			}
			fmt.Fprintf(p.out, "\r%-*s", width, line)
			before, last, width = records, now, max(width, len(line))
		}
	}
}
