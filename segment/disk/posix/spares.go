package posix

import "sync"

const (
	// sparesMax bounds how many closed Files are kept.
	sparesMax = 64
	// sparesResting is how many are left alone: the one that has been closed longest
	// becomes another file only when so many were closed after it. Whoever uses a file
	// right behind its end meets a closed one, and is told, rather than somebody
	// else's.
	sparesResting = 32
)

// spares are Files without a descriptor, to be used again. Any thread may use it.
type spares struct {
	lock  sync.Mutex
	list  [sparesMax]*File // a ring, by the time of closing
	first int
	count int
}

// get returns a closed File.
func (s *spares) get() *File {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.count <= sparesResting {
		return &File{}
	}
	file := s.list[s.first]
	s.list[s.first] = nil
	s.first = (s.first + 1) % sparesMax
	s.count--
	return file
}

// put takes a closed File, or leaves it to the collector when there are enough.
func (s *spares) put(file *File) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.count < sparesMax {
		s.list[(s.first+s.count)%sparesMax] = file
		s.count++
	}
}
