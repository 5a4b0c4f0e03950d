package main

import (
	"os"
	"testing"

	"github.com/pulsemq/pulsemq/tools/overlay"
)

// What is to be taken out of the source is there, once each: else the test below would prove nothing some day.
func TestBitesAreInTheSource(t *testing.T) {
	root, err := overlay.Root(t.Context())
	if err != nil {
		t.Skip(err)
	}
	for _, b := range bites {
		if _, err := overlay.Apply(root, b.edits); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// A broker that does not sync what it acknowledges is found out by the loss of power. It builds four brokers, so that it
// runs with PULSEMQ_CHAOS_LONG=1 and in make chaos only.
func TestPowerLossBites(t *testing.T) {
	if os.Getenv("PULSEMQ_CHAOS_LONG") != "1" {
		t.Skip("PULSEMQ_CHAOS_LONG is not 1")
	}
	playShort(t, "bite")
}
