package main

import (
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

// Names of figures that are held against a floor.
const (
	figureBroker    = "broker"
	figureShare     = "of the echo ceiling"
	figureAbove     = "broker's p50 above the raw p50"
	figureClient    = "broker and client"
	figureP99       = "p99"
	figureP999      = "p99.9"
	figureSingles   = "produce, single messages"
	figureBatches   = "produce, batches of 1000"
	figureFetch     = "fetch"
	figureResident  = "resident memory"
	figureProcessor = "broker's processors"
	figureStolen    = "processors that the host took away" // over the whole row, not a figure of the broker
	figureMembers   = "broker and members"
	figureQueue     = "end to end"
	figureSettled   = "until the group has settled"
	figurePause     = "latest record of a partition that stays"
	figureLeft      = "heap above what it was before"
	figureAnswers   = "until every partition answers"
)

// floor is what the median of a row's figure is held against.
type floor struct {
	row, figure, unit string
	bound             *report.Bound
}

// floors are all that there are, in the order of the rows. docs/benchmarks/README.md lists them too, and a test holds
// the two against each other.
var floors = []floor{
	{"batch-none", figureBroker, report.UnitRecords, report.AtLeast(3e6)},
	{"batch-none", figureShare, report.UnitShare, report.AtLeast(0.70)},
	{"batch-batch", figureBroker, report.UnitRecords, report.AtLeast(3e6)},
	{"batch-batch", figureShare, report.UnitShare, report.AtLeast(0.70)},
	{"batch-sync", figureBroker, report.UnitRecords, report.AtLeast(2e6)},
	{"batch-sync", figureShare, report.UnitShare, report.AtLeast(0.40)},
	{"single-sync", figureBroker, report.UnitRecords, report.AtLeast(500e3)},
	{"one-sync", figureAbove, report.UnitMillis, report.AtMost(0.3)},
	{"sdk-sync", figureBroker, report.UnitRecords, report.AtLeast(1e6)},
	{"fetch-cold", figureBroker, report.UnitBytes, report.AtLeast(1200)},
	{"fetch-tail", figureBroker, report.UnitBytes, report.AtLeast(2000)},
	{"fetch-sdk", figureClient, report.UnitRecords, report.AtLeast(2e6)},
	{"group", figureMembers, report.UnitRecords, report.AtLeast(1e6)},
	{"group-change", figureSettled, report.UnitSeconds, report.AtMost(2)},
	{"group-change", figurePause, report.UnitMillis, report.AtMost(100)},
	{"group-lives", figureLeft, report.UnitMemory, report.AtMost(4)}, // the heap of a broker at rest differs by as much
	{"queue", figureQueue, report.UnitRecords, report.AtLeast(100e3)},
	{"open-loop", figureP99, report.UnitMillis, report.AtMost(5)},
	{"open-loop", figureP999, report.UnitMillis, report.AtMost(15)},
	{"objects", figureSingles, report.UnitObjects, report.AtMost(0.01)},
	{"objects", figureBatches, report.UnitObjects, report.AtMost(0.01)},
	{"objects", figureFetch, report.UnitObjects, report.AtMost(0.01)},
	{"idle", figureProcessor, report.UnitCores, report.AtMost(0.02)}, // the clock's ticks and the metrics' own sampling
	{"idle", figureResident, report.UnitMemory, report.AtMost(100)},
	{"idle-partitions", figureResident, report.UnitMemory, report.AtMost(500)},
	{"restart", figureAnswers, report.UnitSeconds, report.AtMost(5)},
}

// floorOf finds one; nil when there is none.
func floorOf(row, figure string) *report.Bound {
	for _, f := range floors {
		if f.row == row && f.figure == figure {
			return f.bound
		}
	}
	return nil
}
