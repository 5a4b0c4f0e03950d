package segment

import "testing"

// A store in which something is at risk wants its Tick in time; one at rest does not.
func TestStoreIsQuietWhenNothingIsAtRisk(t *testing.T) {
	r, owners := batchRig(t, 16)
	owners[0].append(1, 100)
	r.settle()
	if owners[0].log.RiskBytes() == 0 {
		t.Fatal("a batch topic is synced at once")
	}
	r.tick(0)
	if r.store.Quiet() {
		t.Error("quiet, and flush.ms runs")
	}
	r.store.requestSyncAll(owners[0].log)
	r.settle()
	for range 4 {
		r.tick(1e9)
	}
	if owners[0].log.RiskBytes() != 0 || !r.store.Quiet() {
		t.Errorf("%d bytes are at risk, quiet: %v", owners[0].log.RiskBytes(), r.store.Quiet())
	}
}
