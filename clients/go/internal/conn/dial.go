package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// helloBytesMax bounds the first answer, before the broker has said its limits.
const helloBytesMax = 1 << 20

// Options are the same for all connections of a client.
type Options struct {
	ClientName     string
	ClientVersion  string
	DialTimeout    time.Duration
	RequestTimeout time.Duration
	Keepalive      time.Duration
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	Logger         *slog.Logger
}

// Dial connects to an address and shakes hands. The host is resolved anew, and each of its addresses is tried, IPv6
// and IPv4, until one answers or ctx or the dial timeout ends.
func Dial(ctx context.Context, address string, o *Options) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	nc, err := o.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	hello, err := handshake(nc, o)
	if !stop() && err == nil {
		err = ctx.Err() // the deadline is set or will be: the connection cannot be used
	}
	if err != nil {
		nc.Close()
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("no answer to HELLO in time: %w", ctx.Err())
		}
		return nil, fmt.Errorf("handshake with %s: %w", address, err)
	}
	return newConn(nc, address, hello, o), nil
}

// handshake sends HELLO and reads its answer.
func handshake(nc net.Conn, o *Options) (*proto.HelloResponse, error) {
	request := &proto.HelloRequest{Magic: proto.Magic, ClientName: o.ClientName, ClientVersion: o.ClientVersion}
	for _, info := range proto.Commands() {
		request.Commands = append(request.Commands, proto.CommandRange{
			Command: info.Command, VersionMin: info.VersionMin, VersionMax: info.VersionMax})
	}
	if _, err := nc.Write(proto.AppendFrame(nil, 1, request)); err != nil {
		return nil, err
	}
	var head [proto.FrameHeaderBytes]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return nil, err
	}
	h, _, err := proto.DecodeFrameHeader(head[:], helloBytesMax)
	if err != nil {
		return nil, fmt.Errorf("is this a PulseMQ broker? %w", err)
	}
	payload := make([]byte, h.PayloadBytes())
	if _, err := io.ReadFull(nc, payload); err != nil {
		return nil, err
	}
	if h.Command == proto.CommandError {
		refusal := new(proto.Error)
		if err := refusal.Decode(payload); err != nil {
			return nil, err
		}
		return nil, refusal
	}
	hello := new(proto.HelloResponse)
	if h.Command != proto.CommandHello || !h.Answer {
		return nil, fmt.Errorf("is this a PulseMQ broker? it answered HELLO with %v", h.Command)
	}
	if err := hello.Decode(payload); err != nil {
		return nil, err
	}
	if hello.Magic != proto.Magic {
		return nil, fmt.Errorf("is this a PulseMQ broker? its marker is %#x and not %#x", hello.Magic, uint32(proto.Magic))
	}
	if err := versions(hello.Commands).check(proto.CommandMetadata); err != nil {
		return nil, err
	}
	return hello, nil
}

// versions is what a broker serves.
type versions []proto.CommandRange

// check says whether the broker serves the version of a command that this client speaks.
func (v versions) check(command proto.Command) error {
	ours, _ := command.Info()
	for _, theirs := range v {
		if theirs.Command != command {
			continue
		}
		if ours.VersionMax < theirs.VersionMin || ours.VersionMax > theirs.VersionMax {
			return proto.CodeUnsupportedVersion.Errorf("this client speaks version %d of %v, the broker %d to %d: update the older of them",
				ours.VersionMax, command, theirs.VersionMin, theirs.VersionMax)
		}
		return nil
	}
	return proto.CodeUnknownCommand.Errorf("the broker does not serve %v: it is older than this client needs", command)
}
