package netio

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/proto"
)

// Without file descriptors the broker goes on serving and accepts again when
// there are some: gnet's own acceptor would have ended the process.
func TestServerOutOfDescriptors(t *testing.T) {
	c := newCluster(t, testConfig(t), 1, 1)
	served := c.connect(t)
	// The client's end is made before the descriptors are gone.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "late")
	defer file.Close()

	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	lowest, err := os.Open(os.DevNull) // the next descriptor is this one or above
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: uint64(lowest.Fd()), Max: was.Max}
	lowest.Close()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restored := false
	restore := func() {
		if !restored {
			restored = true
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer restore()
	if _, err := os.Open(os.DevNull); !errors.Is(err, unix.EMFILE) {
		t.Fatalf("descriptors are left: %v", err)
	}
	at := c.server.Addresses()[0].(*net.TCPAddr)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic})); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); c.server.acceptFailures.Load() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("accepting has not failed")
		}
	}
	decode(t, []frame{served.ask(&proto.PingRequest{})}, &proto.PingResponse{})
	restore()
	head := make([]byte, proto.FrameHeaderBytes)
	if n, err := file.Read(head); err != nil || n == 0 {
		t.Fatalf("the connection that had to wait was not served: %v", err)
	}
	if h, _, err := proto.DecodeFrameHeader(head, 1<<20); err != nil || h.Command != proto.CommandHello {
		t.Fatalf("answered with %+v, %v", h, err)
	}
}
