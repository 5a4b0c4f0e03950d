package netio

import (
	"slices"
	"strings"
)

const (
	// groupSeriesMax bounds the groups with series of their own: the first ones by name, so
	// that series stay. The others are added up under groupOthers.
	groupSeriesMax = 1_000
	groupOthers    = "(others)"
)

// writeGroupLags writes a sum for each group: a series for each of its partitions would be as
// many as groups times partitions. `pulsectl group lag` tells the partitions.
func writeGroupLags(p *page, lags []GroupLagSample) {
	slices.SortFunc(lags, func(a, b GroupLagSample) int { return strings.Compare(a.Group, b.Group) })
	var others GroupLagSample
	groups := 0
	for len(lags) > 0 {
		sum := lags[0]
		for lags = lags[1:]; len(lags) > 0 && lags[0].Group == sum.Group; lags = lags[1:] {
			sum.merge(&lags[0])
		}
		if groups++; groups > groupSeriesMax {
			others.merge(&sum)
			continue
		}
		sum.write(p)
	}
	if others.Partitions > 0 {
		others.Group = groupOthers
		others.write(p)
	}
	p.gauge("pulsemq_groups_without_series", "Groups beyond those that have series of their own.", float64(max(0, groups-groupSeriesMax)))
}

func (s *GroupLagSample) merge(o *GroupLagSample) {
	s.Partitions += o.Partitions
	s.Records += o.Records
	s.Nanos = max(s.Nanos, o.Nanos)
}

func (s *GroupLagSample) write(p *page) {
	at := label{"group", s.Group}
	p.gauge("pulsemq_group_partitions", "Partitions that a group has committed to.", float64(s.Partitions), at)
	p.gauge("pulsemq_group_lag_records", "Records that a group has not committed, summed over partitions.", float64(s.Records), at)
	p.gauge("pulsemq_group_lag_seconds", "Age of the oldest record that a group has not committed, since a page first showed it; the greatest of its partitions.", float64(s.Nanos)/1e9, at)
}
