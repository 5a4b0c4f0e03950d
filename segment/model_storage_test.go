package segment

import (
	"errors"
	"flag"
	"strconv"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
	"pgregory.net/rapid"
)

// storageModelStats add up what the last runs went through.
var storageModelStats struct {
	shardChanges, journalFailures, deletions, fullDisks                        int
	recycles, rolls, compactions, retained, states, direct, failures, tailsCut uint64
}

// TestStorageModel drives the shards of a node through random work and holds every
// partition against the list of what was appended and acked: small, direct and
// compressed batches at all durabilities, rolls, trims, retention, compaction,
// changes of durability, partitions that come and go, power cuts, kills, clean
// stops, other numbers of shards, and a disk that fails and fills up.
func TestStorageModel(t *testing.T) {
	// Each run starts several nodes; the rest of -rapid.checks is for the long form.
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { _ = checks.Value.Set(before) }()
	if n, err := strconv.Atoi(before); err == nil {
		_ = checks.Value.Set(strconv.Itoa(max(1, n/5)))
	}
	rapid.Check(t, runStorageModel)
	t.Logf("%+v", storageModelStats)
}

func drawLogOptions(t *rapid.T) LogOptions {
	o := LogOptions{
		Durability:   rapid.SampledFrom([]core.Durability{core.DurabilitySync, core.DurabilityBatch, core.DurabilityNone}).Draw(t, "durability"),
		SegmentBytes: 256 << 10, FlushNanos: 50e6, FlushBytes: 128 << 10,
	}
	switch rapid.IntRange(0, 3).Draw(t, "cleanup") {
	case 0:
		o.RetentionBytes = 600 << 10
	case 1:
		o.Compact = true
	}
	return o
}

func runStorageModel(t *rapid.T) {
	f := &fleet{t: t, fs: mem.New(), clock: &rigClock{wall: 1_700_000_000e9, mono: 1e9}, nextID: 16, deleted: map[core.PartitionID]bool{}}
	f.options = rigOptions{folder: smallFolder(1), slabs: core.HeapSlabs{}}
	f.options.store = Options{
		CacheBytes: 512 << 10, StateBytes: 100 << 10, IdleNanos: 3e9, OpenFiles: 3, FreeBytesLow: 1, FreeBytesHigh: 2, RetainNanos: 1, CompactNanos: 1,
	}
	f.options.driver = mem.DriverOptions{Reorder: rapid.Bool().Draw(t, "reorder"), Seed: rapid.Uint64().Draw(t, "seed")}
	batchSeed = 0 // what is stored depends on it, and a run has to be repeatable
	faults := rapid.Bool().Draw(t, "faults")
	f.start(rapid.IntRange(1, 2).Draw(t, "shards"))
	for range rapid.IntRange(1, 3).Draw(t, "partitions") {
		f.create(drawLogOptions(t))
	}
	f.serve()
	for range rapid.IntRange(20, 80).Draw(t, "steps") {
		if f.lost {
			storageModelStats.journalFailures++
			f.fs.ClearFaults()
			f.restart(crashKind(rapid.IntRange(0, 1).Draw(t, "end")), rapid.Uint64().Draw(t, "crash"), len(f.rigs))
		}
		if len(f.partitions) == 0 {
			f.create(drawLogOptions(t))
		}
		p := f.partitions[rapid.IntRange(0, len(f.partitions)-1).Draw(t, "partition")]
		f.step(t, p, faults)
	}
	f.recoverFromFaults(t)
	f.restart(endStop, 0, len(f.rigs))
	f.turns(1000)
	for _, p := range f.partitions {
		f.check(p, 256<<10)
	}
	f.rigs[0].verify()
	f.addStats()
}

// addStats is called before the stores go.
func (f *fleet) addStats() {
	for _, r := range f.rigs {
		a, b := &storageModelStats, &r.store.stats
		a.recycles += b.JournalRecycles
		a.rolls += b.Rolls
		a.compactions += b.Compactions
		a.retained += b.Retained
		a.states += b.StatesWritten
		a.direct += b.DirectFrames
		a.failures += b.Failures
		a.tailsCut += b.TailsCut
	}
}

func (f *fleet) step(t *rapid.T, p *modelled, faults bool) {
	o, store := p.owner, f.rigOf(p.id).store
	switch action := rapid.SampledFrom(storageModelDeck).Draw(t, "action"); {
	case action == "small":
		for range rapid.SampledFrom([]int{1, 20, 60}).Draw(t, "batches") {
			if f.append(t, p, rapid.SampledFrom([]int{10, 300, 2000, 20000}).Draw(t, "size")) != nil {
				break
			}
		}
	case action == "direct":
		_ = f.append(t, p, rapid.IntRange(64<<10, 200<<10).Draw(t, "size"))
	case action == "fill": // enough for a segment, its state, and what retention and compaction do
		for range rapid.SampledFrom([]int{6, 12}).Draw(t, "batches") {
			_ = f.append(t, p, 70<<10)
			f.turns(50)
			f.tick(1e6)
		}
	case action == "turn":
		f.turn()
	case action == "turns":
		f.turns(200)
	case action == "tick":
		f.tick(rapid.SampledFrom([]int64{1e6, 60e6, 2e9, 4e9}).Draw(t, "nanos"))
	case action == "trim":
		if n := len(o.history); n > 0 {
			at := o.history[rapid.IntRange(0, n-1).Draw(t, "at")].next
			if at <= o.log.EndOffset() && store.Trim(o.log, at) == nil {
				p.asked = max(p.asked, at)
			}
		}
	case action == "read":
		f.turns(200)
		f.tryCheck(t, p)
	case action == "durability":
		p.options.Durability = rapid.SampledFrom([]core.Durability{core.DurabilitySync, core.DurabilityBatch, core.DurabilityNone}).Draw(t, "durability")
		f.note()
		store.SetOptions(o.log, p.options)
	case action == "create" && len(f.partitions) < 5:
		f.create(drawLogOptions(t))
	case action == "delete":
		f.note()
		f.delete(p)
		storageModelStats.deletions++
	case action == "fault" && faults:
		f.fs.Inject(drawFault(t))
	case action == "full" && faults:
		total, free, _ := f.fs.Space()
		f.fs.SetCapacity(total - free + int64(rapid.IntRange(0, 64).Draw(t, "pages"))<<12)
		storageModelStats.fullDisks++
	case action == "mend" && faults:
		f.recoverFromFaults(t)
	case action == "restart":
		kind := rapid.SampledFrom([]crashKind{endPower, endKill, endStop}).Draw(t, "end")
		if kind == endStop || rapid.Bool().Draw(t, "mended") {
			f.recoverFromFaults(t)
		} else {
			f.fs.ClearFaults() // a start under faults is refused, which other tests look at
			f.fs.SetCapacity(1 << 50)
		}
		shards := len(f.rigs)
		if rapid.IntRange(0, 2).Draw(t, "change") == 2 {
			shards = rapid.IntRange(1, 3).Draw(t, "shards")
			storageModelStats.shardChanges++
		}
		f.restart(kind, rapid.Uint64().Draw(t, "crash"), shards)
	}
}

// storageModelDeck are the steps, each as often as it is to come up.
var storageModelDeck = []string{
	"small", "fault", "fill", "small", "restart", "direct", "turn", "tick", "full", "small", "turns", "direct", "tick",
	"trim", "turns", "small", "read", "direct", "durability", "turn", "create", "small", "tick", "mend", "restart", "delete",
}

func (f *fleet) append(t *rapid.T, p *modelled, size int) error {
	batchSeed++
	codec := rapid.SampledFrom([]proto.Codec{proto.CodecNone, proto.CodecNone, proto.CodecZstd, proto.CodecGzip}).Draw(t, "codec")
	if p.options.Compact {
		return p.owner.tryAppendBatch(keyedBatch(codec, rapid.IntRange(0, 9).Draw(t, "key"), size, batchSeed), 1, p.options.Durability)
	}
	if codec != proto.CodecNone {
		return p.owner.tryAppendBatch(keyedBatch(codec, 0, size, batchSeed), 1, p.options.Durability)
	}
	return p.owner.tryAppend(rapid.IntRange(1, 4).Draw(t, "records"), size, p.options.Durability)
}

func drawFault(t *rapid.T) *mem.Fault {
	kinds := []core.DiskOpKind{core.DiskSync, core.DiskWrite, core.DiskAllocate, core.DiskCreate, core.DiskOpen, core.DiskSyncDir, core.DiskTruncate}
	fault := &mem.Fault{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Skip: rapid.IntRange(0, 3).Draw(t, "skip")}
	fault.Path = rapid.SampledFrom([]string{"topics*", "topics*", "layout-*", "topics*"}).Draw(t, "path")
	if fault.Kind == core.DiskAllocate && rapid.Bool().Draw(t, "full") {
		fault.Err = core.ErrDiskFull
	}
	if fault.Kind == core.DiskWrite && rapid.Bool().Draw(t, "tear") {
		fault.Action, fault.Bytes = mem.FaultTear, rapid.IntRange(0, 9000).Draw(t, "bytes")
	}
	return fault
}

// tryCheck reads a partition while the disk may be failing: it may answer an error,
// never other bytes.
func (f *fleet) tryCheck(t *rapid.T, p *modelled) {
	if l := p.owner.log; l.state != logServing || f.lost {
		return
	}
	f.fs.ClearFaults()
	f.check(p, rapid.SampledFrom([]int{1, 5000, 256 << 10}).Draw(t, "bytes"))
}

// recoverFromFaults makes the disk whole and has every partition take batches again.
func (f *fleet) recoverFromFaults(t *rapid.T) {
	f.fs.ClearFaults()
	f.fs.SetCapacity(1 << 50)
	if f.lost {
		storageModelStats.journalFailures++
		f.restart(endKill, rapid.Uint64().Draw(t, "crash"), len(f.rigs))
	}
	for _, p := range f.partitions {
		for tries := 0; ; tries++ {
			err := f.append(t, p, 10)
			if err == nil {
				break
			}
			if !errors.Is(err, ErrLogFailed) && !errors.Is(err, core.ErrDiskFull) && !errors.Is(err, ErrStoreBusy) || tries > 100 {
				t.Fatalf("partition %d takes nothing after the disk is whole again: %v", p.id, err)
			}
			f.tick(1e9)
			f.turns(200)
		}
	}
	f.turns(200)
}
