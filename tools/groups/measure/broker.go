package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// Broker is the broker that is measured.
type Broker struct {
	Address string // for clients
	Admin   string // for metrics and profiles
}

// Say tells how far a measurement is, a line at a time.
type Say func(format string, args ...any)

func (b *Broker) connect(ctx context.Context) (*pulsemq.Client, error) {
	return pulsemq.Connect(ctx, b.Address, pulsemq.ClientName("groups"))
}

// each does something for each number, some side by side, up to the first failure.
func each(ctx context.Context, side, count int, do func(i int) error) error {
	var all sync.WaitGroup
	numbers, failures := make(chan int), make(chan error, side)
	for range side {
		all.Go(func() {
			for i := range numbers {
				if err := do(i); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	var failed error
	for i := 0; i < count && failed == nil; i++ {
		select {
		case numbers <- i:
		case failed = <-failures:
		case <-ctx.Done():
			failed = ctx.Err()
		}
	}
	close(numbers)
	all.Wait()
	close(failures)
	for err := range failures {
		failed = errors.Join(failed, err)
	}
	return failed
}

// Memory is what the broker holds: of resident, payload is what lies in its arenas, which does
// not follow from how many groups there are.
type Memory struct {
	Heap, Resident, Payload int64 // bytes
	Groups                  int64
}

func (m Memory) String() string {
	return fmt.Sprintf("heap %.1f MiB, resident %.1f MiB, of it payload up to %.1f MiB, %d groups", float64(m.Heap)/(1<<20), float64(m.Resident)/(1<<20), float64(m.Payload)/(1<<20), m.Groups)
}

// memory looks at the broker after a collection of its garbage, once a page shows so many groups;
// -1 is any number. Pages are up to a second old.
func (b *Broker) memory(ctx context.Context, groups int) (Memory, error) {
	for range 2 { // the second frees what the first has finalized
		if _, err := b.Page(ctx, "/debug/pprof/heap?gc=1"); err != nil {
			return Memory{}, err
		}
	}
	for end := time.Now().Add(30 * time.Second); ; {
		page, err := b.Page(ctx, "/metrics")
		if err != nil {
			return Memory{}, err
		}
		m := Memory{int64(page.sum("go_memstats_heap_alloc_bytes")), int64(page.sum("process_resident_memory_bytes")), int64(page.sum("pulsemq_arena_touched_bytes")), int64(page.sum("pulsemq_groups"))}
		if groups < 0 || m.Groups == int64(groups) {
			return m, nil
		}
		if time.Now().After(end) {
			return m, fmt.Errorf("the page shows %d groups, and there are %d", m.Groups, groups)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Page is a page of the operators' port.
type Page []byte

// Page fetches one.
func (b *Broker) Page(ctx context.Context, path string) (Page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return text, err
}

// sum adds up the series of a family.
func (p Page) sum(family string) (sum float64) {
	lines := bufio.NewScanner(strings.NewReader(string(p)))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), family)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err == nil {
			sum += value
		}
	}
	return sum
}
