// Package pulsemq is the Go client of the PulseMQ message broker.
package pulsemq
