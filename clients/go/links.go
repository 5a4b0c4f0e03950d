package pulsemq

import (
	"sync"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
)

// links is how tasks come to the connections that they share. A task that finds none is told when there is an outcome;
// one attempt runs for all that wait for the same broker.
type links struct {
	cluster *cluster.Cluster
	role    cluster.Role
	tell    func(task, error) // of the outcome, nil when connected

	mu      sync.Mutex
	waiting map[uint32][]task
}

func newLinks(c *cluster.Cluster, role cluster.Role, tell func(task, error)) *links {
	return &links{cluster: c, role: role, tell: tell, waiting: map[uint32][]task{}}
}

// get is the connection to a broker, or nil while there is none.
func (l *links) get(node uint32, t task) *conn.Conn {
	link := l.cluster.Link(l.role, node)
	if live := link.Current(); live != nil {
		return live
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[node] = append(l.waiting[node], t)
	if len(l.waiting[node]) == 1 {
		link.Want(func(err error) {
			l.mu.Lock()
			waiting := l.waiting[node]
			delete(l.waiting, node)
			l.mu.Unlock()
			for _, t := range waiting {
				l.tell(t, err)
			}
		})
	}
	return nil
}
