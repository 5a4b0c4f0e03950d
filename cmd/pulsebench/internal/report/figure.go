package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Figure is one measured quantity of several runs.
type Figure struct {
	What   string    `json:"what"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"` // one of each run, in their order
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Floor  *Bound    `json:"floor,omitempty"` // what the median is held against
	Held   *bool     `json:"held,omitempty"`  // nil without a floor
}

// Bound is the least or the most that a figure may be; the other one is nil.
type Bound struct {
	Least *float64 `json:"at_least,omitempty"`
	Most  *float64 `json:"at_most,omitempty"`
}

// AtLeast bounds a figure from below.
func AtLeast(v float64) *Bound { return &Bound{Least: &v} }

// AtMost bounds a figure from above.
func AtMost(v float64) *Bound { return &Bound{Most: &v} }

// Names of units, as they are written.
const (
	UnitRecords    = "records/s"
	UnitBytes      = "MB/s"
	UnitMillis     = "ms"
	UnitSeconds    = "s"
	UnitCores      = "cores"
	UnitShare      = "x" // one figure divided by another
	UnitMemory     = "MB"
	UnitObjects    = "objects/request"
	UnitOperations = "operations/s"
)

// NewFigure takes the median of the values: the mean of the two in the middle when their number is even.
func NewFigure(what, unit string, values []float64, floor *Bound) Figure {
	f := Figure{What: what, Unit: unit, Values: values, Floor: floor}
	if len(values) == 0 {
		return f
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	f.Low, f.High, f.Median = sorted[0], sorted[n-1], (sorted[(n-1)/2]+sorted[n/2])/2
	if floor != nil {
		held := (floor.Least == nil || f.Median >= *floor.Least) && (floor.Most == nil || f.Median <= *floor.Most)
		f.Held = &held
	}
	return f
}

// Text is a bound as it stands in a table; empty without one.
func (b *Bound) Text(unit string) string {
	word, value := "at most", 0.0
	switch {
	case b == nil:
		return ""
	case b.Least != nil:
		word, value = "at least", *b.Least
	default:
		value = *b.Most
	}
	text := strconv.FormatFloat(value, 'f', -1, 64)
	if value >= 1000 {
		text = grouped(int64(math.Round(value)))
	}
	return word + " " + text + " " + unit
}

// amount writes a value with as many digits as its unit deserves.
func amount(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case unit == UnitRecords, unit == UnitOperations:
		return grouped(int64(math.Round(v)))
	case unit == UnitBytes, unit == UnitMemory:
		return fmt.Sprintf("%.1f", v)
	case unit == UnitObjects:
		return fmt.Sprintf("%.5f", v)
	case unit == UnitMillis:
		return millis(v)
	}
	return fmt.Sprintf("%.2f", v)
}

// value is the median with its unit.
func (f *Figure) value() string {
	if len(f.Values) == 0 {
		return "-"
	}
	return amount(f.Median, f.Unit) + " " + f.Unit
}

// spread is the lowest and the highest value.
func (f *Figure) spread() string {
	if len(f.Values) < 2 {
		return ""
	}
	return amount(f.Low, f.Unit) + " to " + amount(f.High, f.Unit)
}

// verdict says whether the floor is held.
func (f *Figure) verdict() string {
	switch {
	case f.Held == nil:
		return ""
	case *f.Held:
		return "met"
	}
	return "not met"
}
