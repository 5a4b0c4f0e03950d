package proto

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestErrorsCarryCodes(t *testing.T) {
	sent := &Error{Code: CodeNotLeader, Text: "node 1 does not lead it", Leader: &LeaderHint{NodeID: 2, LeaderEpoch: 5, Address: "[::1]:9090"}}
	var got Error
	if err := got.Decode(sent.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	err := fmt.Errorf("produce to orders: %w", &got)
	if !errors.Is(err, ErrNotLeader) || errors.Is(err, ErrUnknownTopic) {
		t.Errorf("%v is found wrongly", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Leader == nil || *e.Leader != *sent.Leader {
		t.Errorf("the details are lost: %+v", e)
	}
	if !e.Retriable() || CodeUnknownTopic.Retriable() || Code(9999).Retriable() {
		t.Error("Retriable is wrong")
	}
	if e.Error() != "NOT_LEADER: node 1 does not lead it" {
		t.Errorf("text %q", e.Error())
	}
	if (&Error{}).Err() != nil || got.Err() == nil || (&Error{}).Unwrap() != nil {
		t.Error("NONE is an error, or an error is none")
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err   error
		want  Code
		known bool
	}{
		{nil, CodeNone, true},
		{ErrStorageFull, CodeStorageFull, true},
		{fmt.Errorf("append: %w", ErrStorageFull), CodeStorageFull, true},
		{&BatchError{Code: CodeCorruptBatch}, CodeCorruptBatch, true},
		{&DecodeError{}, CodeMalformedRequest, true},
		{&FrameError{Code: CodeFrameTooLarge}, CodeFrameTooLarge, true},
		{CodeOverloaded.Errorf("wait"), CodeOverloaded, true},
		{io.EOF, CodeInternal, false},
	} {
		if got, known := CodeOf(c.err); got != c.want || known != c.known {
			t.Errorf("CodeOf(%v) = %v, %v", c.err, got, known)
		}
	}
}

func TestAsError(t *testing.T) {
	detailed := &Error{Code: CodeOverloaded, WaitMs: 5}
	if got := AsError(fmt.Errorf("x: %w", detailed)); got != detailed {
		t.Errorf("the details are lost: %+v", got)
	}
	if got := AsError(fmt.Errorf("x: %w", ErrStorageFull)); got.Code != CodeStorageFull || got.Text == "" {
		t.Errorf("%+v", got)
	}
	if got := AsError(errors.New("secret path")); got.Code != CodeInternal || got.Text == "secret path" {
		t.Errorf("an error without a code is shown: %+v", got)
	}
	if AsError(nil).Failed() {
		t.Error("nil failed")
	}
}

func TestCodesAreKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, info := range Codes() {
		if seen[info.Name] || info.Text == "" || !info.Code.Known() || info.Code.String() != info.Name {
			t.Errorf("%+v", info)
		}
		seen[info.Name] = true
	}
	if Code(7).Known() {
		t.Error("7 is reserved")
	}
	if Code(9999).String() != "ERROR_9999" || Code(9999).Error() != "ERROR_9999" {
		t.Error("a code that is not known has no number")
	}
}

func TestCommandsAreKnown(t *testing.T) {
	for _, info := range Layouts() {
		got, ok := info.Command.Info()
		if !ok || got != info || info.Command.String() != info.Name || info.Command.Version() != info.VersionMax {
			t.Errorf("%+v, %+v", info, got)
		}
		if (NewRequest(info.Command) != nil) != info.Request {
			t.Errorf("%s: Request is %v", info.Name, info.Request)
		}
	}
	if _, ok := CommandAuth.Info(); ok || CommandAuth.String() != "AUTH" || CommandAuth.Version() != 0 {
		t.Error("AUTH is served")
	}
	if Command(99).String() != "COMMAND_99" {
		t.Error(Command(99).String())
	}
}
