package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestFigureIsAMedianHeldAgainstAFloor(t *testing.T) {
	for _, c := range []struct {
		values           []float64
		floor            *Bound
		median, low, top float64
		held             string
	}{
		{[]float64{3, 1, 2}, AtLeast(2), 2, 1, 3, "met"},
		{[]float64{3, 1, 2}, AtLeast(2.5), 2, 1, 3, "not met"},
		{[]float64{4, 1, 2, 3}, AtMost(2.5), 2.5, 1, 4, "met"},
		{[]float64{4, 1, 2, 3}, AtMost(2.4), 2.5, 1, 4, "not met"},
		{[]float64{7}, nil, 7, 7, 7, ""},
		{nil, AtLeast(1), 0, 0, 0, ""},
	} {
		f := NewFigure("f", UnitShare, c.values, c.floor)
		if f.Median != c.median || f.Low != c.low || f.High != c.top || f.verdict() != c.held {
			t.Errorf("%v against %v: %+v, held %q", c.values, c.floor, f, f.verdict())
		}
	}
}

func TestComparisonIsWrittenThreeWays(t *testing.T) {
	c := NewComparison("A table", 3, 6*time.Second, Environment{CPUModel: "a processor", Cores: 2, Kernel: "Linux 6", FileSystem: "ext4", Command: "pulsebench table"})
	row := Row{Name: "batch", Workload: "batches", Commands: []string{"bin/pulsebench produce"}}
	row.Add("broker", UnitRecords, []float64{3_000_000, 2_000_000, 4_000_000}, AtLeast(3_500_000))
	row.Add("of the echo ceiling", UnitShare, []float64{0.5, 0.4, 0.6}, AtLeast(0.4))
	c.Rows = append(c.Rows, row, Row{Name: "restart", Workload: "a restart", Skipped: "no broker of its own"})
	var table, page, text bytes.Buffer
	if err := c.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteMarkdown(&page, Picture{Name: "shares.svg", Of: "shares"}); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3,000,000 records/s", "2,000,000 to 4,000,000", "at least 3,500,000", "0.50 x", "no broker of its own"} {
		if !strings.Contains(table.String(), want) || !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in\n%s\n%s", want, table.String(), page.String())
		}
	}
	for _, want := range []string{"a processor, 2 cores", "![shares](shares.svg)", "\nbin/pulsebench produce\n", "| `batch` | batches | broker | at least 3,500,000 records/s | 3,000,000 records/s |", "| 0.50 x | not met |", "| at least 0.4 x | 0.50 x |", "| `restart` | a restart | not measured"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in\n%s", want, page.String())
		}
	}
	var back Comparison
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back.Rows[0].Figure("broker").Median != 3_000_000 || *back.Rows[0].Figure("broker").Held || back.Rows[0].Figure("none") != nil {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestStepsAreJudged(t *testing.T) {
	result := func(records int64, seconds, p99 float64) *Result {
		return &Result{Records: records, Seconds: seconds, Latency: &Latency{P99: p99}}
	}
	s := Sweep{AchievedMin: 0.99, P99Max: 20, StepSeconds: 10}
	for _, c := range []struct {
		offered, seconds float64
		result           *Result
		good             bool
		why              string
	}{
		{1000, 10, result(10_000, 9.99, 5), true, ""},
		{2000, 10, result(19_900, 10.01, 19.9), true, ""},
		{4000, 10, result(39_000, 10, 5), false, "97.5 %"},
		{4000, 10, result(40_000, 11, 5), false, "90.9 %"}, // all of it, but late
		{3000, 10, result(30_000, 10, 20), false, "p99"},
		{1500, 10, result(15_000, 10, 3), true, ""},
		{2500, 2, result(5_000, 2, 3), true, ""}, // good, but not for long enough to be the knee
	} {
		if step := s.Judge(c.offered, c.seconds, c.result); step.Good != c.good || !strings.Contains(step.Why, c.why) {
			t.Errorf("%v offered: %+v", c.offered, step)
		}
	}
	if s.Knee != 2000 || len(s.Steps) != 7 {
		t.Errorf("the knee is %v of %d steps", s.Knee, len(s.Steps))
	}
	s.Omit(9000, 10, "no room")
	var table bytes.Buffer
	if err := s.WriteTable(&table); err != nil || s.Knee != 2000 || !strings.Contains(table.String(), "knee: 2,000 records/s, or more") || !strings.Contains(table.String(), "no room") || !strings.Contains(table.String(), "97.5 % went through") {
		t.Errorf("%v, the table is\n%s", err, table.String())
	}
}
