package abuse

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/proto"
)

// blackhole has clients vanish without a word: they live in a network of their own, whose link goes down. Nothing that
// the broker sends is answered any more, not even by a reset. It notices within its deadlines and frees the sockets.
func (b *broker) blackhole(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	id := os.Getpid() % 10_000
	space, near, far := fmt.Sprintf("abuse%d", id), fmt.Sprintf("abuse%da", id), fmt.Sprintf("abuse%db", id)
	subnet := fmt.Sprintf("169.254.%d", 1+id%250)
	run := func(line string) error {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %v: %s", line, err, out)
		}
		return nil
	}
	defer run("netns del " + space)
	defer run("link del " + near)
	for _, line := range []string{
		"netns add " + space,
		"link add " + near + " type veth peer name " + far + " netns " + space,
		"addr add " + subnet + ".1/30 dev " + near,
		"link set " + near + " up",
		"-n " + space + " addr add " + subnet + ".2/30 dev " + far,
		"-n " + space + " link set " + far + " up",
	} {
		if err := run(line); err != nil {
			t.Skip("no network namespace here: ", err)
		}
	}
	_, port, err := net.SplitHostPort(b.process.Address)
	if err != nil {
		t.Fatal(err)
	}
	before := b.descriptors()
	count := 16 // each holds a window, and none of them answers when a part of it is asked back
	all, err := dialInside("/var/run/netns/"+space, net.JoinHostPort(subnet+".1", port), count)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(answerWait))
		write(t, c, helloFrame)
		if h, p := answer(t, c); h.Command != proto.CommandHello {
			t.Fatalf("HELLO from another network: %v", refusal(p))
		}
		if i%2 == 0 { // there is more for it than its socket takes
			write(t, c, proto.AppendFrame(nil, 10, &proto.FetchRequest{TopicID: b.topic, LeaderEpoch: -1, LastEpoch: -1, Offset: b.start(t), MaxBytes: 1 << 30}))
		}
	}
	if most := b.descriptors(); most < before+count {
		t.Fatalf("%d descriptors with %d connections, %d before", most, count, before)
	}
	began := time.Now()
	if err := run("-n " + space + " link set " + far + " down"); err != nil {
		t.Fatal(err)
	}
	for b.descriptors() > before+5 {
		if time.Since(began) > idleTimeout+slack {
			t.Fatalf("%v after its clients have vanished the broker has %d descriptors, %d before", time.Since(began), b.descriptors(), before)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("%d vanished clients were noticed within %v", count, time.Since(began).Round(time.Millisecond))
}

// start is the first offset that the abused topic still holds.
func (b *broker) start(t *testing.T) int64 {
	t.Helper()
	c := b.dial(t)
	defer c.Close()
	write(t, c, proto.AppendFrame(nil, 10, &proto.ListOffsetsRequest{Items: []proto.ListOffsetsItem{{TopicID: b.topic, LeaderEpoch: -1, Kind: proto.OffsetKindEarliest}}}))
	h, p := answerTo(t, c, 10)
	var m proto.ListOffsetsResponse
	if h.Command != proto.CommandListOffsets || m.Decode(p) != nil || len(m.Items) != 1 {
		t.Fatalf("LIST_OFFSETS: %v", refusal(p))
	}
	return m.Items[0].Offset
}

// dialInside makes connections in another network. A socket stays in the one that it was made in.
func dialInside(space, address string, count int) (all []net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		var f *os.File
		if f, err = os.Open(space); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		for range count {
			var c net.Conn
			if c, err = net.DialTimeout("tcp", address, answerWait); err != nil {
				return
			}
			all = append(all, c)
		}
	}()
	<-done
	return all, err
}
