package main

import "fmt"

// injected counts what was done to the nodes of a run.
type injected struct {
	powerCuts, kills, stops, deaths     int
	resets, stalls, jumps, full         int
	diskFailures, diskShorts, diskTears int // operations that were hit
	diskDelays, diskFlips               int
	surfaced                            int // times that a failure of a disk was told
}

func (i *injected) add(o *injected) {
	i.powerCuts += o.powerCuts
	i.kills += o.kills
	i.stops += o.stops
	i.deaths += o.deaths
	i.resets += o.resets
	i.stalls += o.stalls
	i.jumps += o.jumps
	i.full += o.full
	i.diskFailures += o.diskFailures
	i.diskShorts += o.diskShorts
	i.diskTears += o.diskTears
	i.diskDelays += o.diskDelays
	i.diskFlips += o.diskFlips
	i.surfaced += o.surfaced
}

func (i *injected) String() string {
	return fmt.Sprintf("%d power cuts, %d kills, %d stops, %d resets, %d stalls, %d clock jumps, %d full disks; "+
		"of disk operations %d failed, %d short, %d torn, %d late, %d flipped; a disk's failure was told %d times and ended %d processes",
		i.powerCuts, i.kills, i.stops, i.resets, i.stalls, i.jumps, i.full,
		i.diskFailures, i.diskShorts, i.diskTears, i.diskDelays, i.diskFlips, i.surfaced, i.deaths)
}
