// Package contract holds what every disk asserts about the operations it is given
// and refuses in the paths it is given, so that a fault found with one of them
// (usually the one in memory, under the simulator) is not accepted by another.
package contract
