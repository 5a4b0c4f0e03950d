package nats

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	wireBufferBytes = 64 << 10
	silenceMax      = 60 * time.Second
)

// wire is a connection that publishes and takes acknowledgements, in the text protocol of NATS.
type wire struct {
	conn  net.Conn
	in    *bufio.Reader
	out   []byte
	inbox string
}

// dial connects and subscribes to everything below the inbox.
func dial(ctx context.Context, address, inbox string) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn, in: bufio.NewReaderSize(conn, wireBufferBytes), inbox: inbox}
	if err := w.shake(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return w, nil
}

func (w *wire) shake() error {
	_ = w.conn.SetDeadline(time.Now().Add(silenceMax))
	info, err := w.in.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(info, []byte("INFO ")) {
		return errors.Join(fmt.Errorf("what answers is no NATS server: %q", info), err)
	}
	hello := fmt.Sprintf("CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"go\",\"version\":\"0\",\"protocol\":1,\"headers\":true,\"no_responders\":true}\r\nSUB %s.* 1\r\nPING\r\n", w.inbox)
	if _, err := w.conn.Write([]byte(hello)); err != nil {
		return err
	}
	for {
		line, err := w.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case bytes.HasPrefix(line, []byte("PONG")):
			return w.conn.SetDeadline(time.Time{})
		case bytes.HasPrefix(line, []byte("-ERR")):
			return fmt.Errorf("the server says %s", bytes.TrimSpace(line))
		}
	}
}

// publish gathers a message whose acknowledgement comes back with the slot.
func (w *wire) publish(subject []byte, slot int, payload []byte) {
	w.out = append(w.out, "PUB "...)
	w.out = append(w.out, subject...)
	w.out = append(w.out, ' ')
	w.out = append(w.out, w.inbox...)
	w.out = append(w.out, '.')
	w.out = strconv.AppendInt(w.out, int64(slot), 10)
	w.out = append(w.out, ' ')
	w.out = strconv.AppendInt(w.out, int64(len(payload)), 10)
	w.out = append(w.out, "\r\n"...)
	w.out = append(w.out, payload...)
	w.out = append(w.out, "\r\n"...)
}

// flush sends what was gathered.
func (w *wire) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.conn.Write(w.out)
	w.out = w.out[:0]
	return err
}

// buffered reports whether another acknowledgement has arrived, at least in part.
func (w *wire) buffered() bool { return w.in.Buffered() > 0 }

// ack waits for an acknowledgement and returns its slot.
//
//	MSG inbox.7 1 35
//	{"stream":"peers-0","seq":12345}
func (w *wire) ack() (slot int, err error) {
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		switch {
		case bytes.HasPrefix(line, []byte("MSG ")), bytes.HasPrefix(line, []byte("HMSG ")):
			headers := line[0] == 'H'
			fields := bytes.Fields(line)
			slot, err := strconv.Atoi(string(fields[1][len(w.inbox)+1:]))
			if err != nil {
				return 0, fmt.Errorf("the server answers %q", line)
			}
			size, err := strconv.Atoi(string(fields[len(fields)-1]))
			if err != nil {
				return 0, fmt.Errorf("the server answers %q", line)
			}
			body, err := w.in.Peek(size + 2)
			if err != nil {
				return 0, err
			}
			if headers || bytes.Contains(body, []byte(`"error"`)) || !bytes.Contains(body, []byte(`"seq"`)) {
				return 0, fmt.Errorf("a message was refused: %s", bytes.TrimSpace(body))
			}
			_, err = w.in.Discard(size + 2)
			return slot, err
		case bytes.HasPrefix(line, []byte("PING")):
			w.out = append(w.out, "PONG\r\n"...)
			if err := w.flush(); err != nil {
				return 0, err
			}
		case bytes.HasPrefix(line, []byte("-ERR")):
			return 0, fmt.Errorf("the server says %s", bytes.TrimSpace(line))
		}
	}
}
