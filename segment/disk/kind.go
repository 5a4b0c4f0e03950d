package disk

import "fmt"

// Kind is a way to do disk operations.
type Kind string

const (
	// KindAuto is io_uring where it can be used, else worker threads.
	KindAuto Kind = "auto"
	// KindUring is io_uring; it is an error where it cannot be used.
	KindUring Kind = "uring"
	// KindPosix is worker threads.
	KindPosix Kind = "posix"
)

// ParseKind reads auto, uring or posix.
func ParseKind(s string) (Kind, error) {
	switch kind := Kind(s); kind {
	case KindAuto, KindUring, KindPosix:
		return kind, nil
	}
	return "", fmt.Errorf("disk driver %q: allowed are auto, uring and posix", s)
}

// Choice is the driver that was chosen.
type Choice struct {
	// Kind is KindUring or KindPosix.
	Kind Kind
	// Refused is why io_uring is not used although it was wanted; nil otherwise. The
	// caller logs it as one warning.
	Refused error
}
