package conn

import "errors"

// What a request ends with when it is not the broker that refuses it. The package pulsemq shows them to applications.
var (
	ErrClosed         = errors.New("pulsemq: closed")
	ErrDisconnected   = errors.New("pulsemq: the connection ended before the answer")
	ErrRequestTimeout = errors.New("pulsemq: the broker did not answer in time")
)
