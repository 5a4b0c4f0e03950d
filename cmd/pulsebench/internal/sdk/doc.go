// Package sdk puts load on a broker through the Go client, record by record, as an application would. Every record
// carries a mark of its own. What was produced is read back over raw connections all the same, so that a fault of the
// client's producer is not hidden by one of its consumer.
package sdk
