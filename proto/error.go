package proto

import (
	"errors"
	"fmt"
	"strconv"
)

// Code is the number of an error on the wire. It is an error itself, so that errors.Is(err, ErrUnknownTopic) holds for
// every error that carries the code.
type Code uint16

// CodeInfo describes a code.
type CodeInfo struct {
	Code      Code
	Name      string // as the documents write it: UNKNOWN_TOPIC
	Retriable bool
	Text      string
}

// Codes lists every code that this package knows, in the order of their numbers.
func Codes() []CodeInfo {
	return append([]CodeInfo(nil), codeInfos[:]...)
}

// String is the code's name, or its number when it is not known.
func (c Code) String() string {
	if info := codeInfo(c); info != nil {
		return info.Name
	}
	return "ERROR_" + strconv.Itoa(int(c))
}

// Error is the code's name and general text.
func (c Code) Error() string {
	if info := codeInfo(c); info != nil {
		return info.Name + ": " + info.Text
	}
	return c.String()
}

// Known reports whether the code is one of those that are defined.
func (c Code) Known() bool { return codeInfo(c) != nil }

// Retriable reports whether the same request may succeed later. Codes that are not known are not.
func (c Code) Retriable() bool {
	info := codeInfo(c)
	return info != nil && info.Retriable
}

// Errorf makes an error with this code and a text of its own.
func (c Code) Errorf(format string, args ...any) *Error {
	return &Error{Code: c, Text: fmt.Sprintf(format, args...)}
}

// Error is the code's name and the text.
func (m *Error) Error() string {
	if m.Text == "" {
		return m.Code.Error()
	}
	return m.Code.String() + ": " + m.Text
}

// Unwrap is the code, so that errors.Is works with the ErrXxx values.
func (m *Error) Unwrap() error {
	if m.Code == CodeNone {
		return nil
	}
	return m.Code
}

// Retriable reports whether the same request may succeed later.
func (m *Error) Retriable() bool { return m.Code.Retriable() }

// Failed reports whether this is a failure: inside items CodeNone says that there is none.
func (m *Error) Failed() bool { return m.Code != CodeNone }

// Err is the error, or nil when the code is CodeNone.
func (m *Error) Err() error {
	if m.Code == CodeNone {
		return nil
	}
	return m
}

// CodeOf finds the code that an error carries. An error without one is a bug of whoever made it: it is CodeInternal,
// and false.
func CodeOf(err error) (Code, bool) {
	if err == nil {
		return CodeNone, true
	}
	var code Code
	if errors.As(err, &code) {
		return code, true
	}
	return CodeInternal, false
}

// AsError turns any error into one that can be sent. An *Error in the chain is returned as it is, with its details;
// else the code is CodeOf's and the text is that of err, except that an error without a code is not shown to clients.
// The result must not be changed.
func AsError(err error) *Error {
	if err == nil {
		return &Error{}
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	code, ok := CodeOf(err)
	if !ok {
		return &Error{Code: code, Text: "the broker failed; its log says how"}
	}
	return &Error{Code: code, Text: err.Error()}
}
