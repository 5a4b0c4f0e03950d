package report

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Step is one rate of a sweep.
type Step struct {
	Offered  float64 `json:"offered"`  // records per second
	Seconds  float64 `json:"seconds"`  // that it was offered for
	Achieved float64 `json:"achieved"` // share of it that went through in the time
	Good     bool    `json:"good"`
	Why      string  `json:"why,omitempty"` // it is not good
	Result   *Result `json:"result"`
}

// Sweep is a row of rates, and the highest that was good.
type Sweep struct {
	Knee        float64     `json:"knee_records_per_second"` // 0 when none was good
	AchievedMin float64     `json:"achieved_min"`            // what a good step achieves at least
	P99Max      float64     `json:"p99_max_ms"`              // what its p99 stays below
	StepSeconds float64     `json:"step_seconds"`            // how long a rate has to last to be the knee
	Omitted     bool        `json:"omitted_for_room"`        // a higher rate would not have fitted on the disk: the knee may be higher
	Steps       []Step      `json:"steps"`                   // in the order in which they were tried
	Environment Environment `json:"environment"`
}

// Judge adds the outcome of a rate that was offered for so many seconds and says whether it is good. Only one that has
// lasted as long as it has to can be the knee.
func (s *Sweep) Judge(offered, seconds float64, result *Result) *Step {
	step := Step{Offered: offered, Seconds: seconds, Result: result, Good: true}
	// What came after the end of the step was late, and what took longer did not keep to the rate.
	step.Achieved = float64(result.Records) / (offered * max(seconds, result.Seconds))
	switch {
	case step.Achieved < s.AchievedMin:
		step.Good, step.Why = false, fmt.Sprintf("%.1f %% went through", 100*step.Achieved)
	case result.Latency == nil:
		step.Good, step.Why = false, "no latency"
	case result.Latency.P99 >= s.P99Max:
		step.Good, step.Why = false, "p99 of "+millis(result.Latency.P99)+" ms"
	}
	s.Steps = append(s.Steps, step)
	if step.Good && seconds >= s.StepSeconds {
		s.Knee = max(s.Knee, offered)
	}
	return &s.Steps[len(s.Steps)-1]
}

// Omit adds a rate that was not tried, because what it sends does not fit on the disk.
func (s *Sweep) Omit(offered, seconds float64, why string) {
	s.Omitted = true
	s.Steps = append(s.Steps, Step{Offered: offered, Seconds: seconds, Why: why, Result: new(Result)})
}

// Public is the sweep as a page may show it that others read.
func (s *Sweep) Public(command string) *Sweep {
	public := *s
	public.Environment = s.Environment.Public(command)
	public.Steps = nil
	for _, step := range s.Steps {
		result := *step.Result
		result.Environment = result.Environment.Public(command)
		step.Result = &result
		public.Steps = append(public.Steps, step)
	}
	return &public
}

// WriteJSON writes the sweep as one object.
func (s *Sweep) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(s)
}

// WriteTable prints the steps in their order.
func (s *Sweep) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "offered/s\tfor s\twent through/s\tshare\tMB/s\tp50 ms\tp99 ms\tp99.9 ms\tp99.99 ms\t  ")
	for i := range s.Steps {
		step := &s.Steps[i]
		l := step.Result.Latency
		if l == nil {
			l = new(Latency)
		}
		verdict := "good"
		if !step.Good {
			verdict = step.Why
		}
		fmt.Fprintf(t, "%s\t%g\t%s\t%.1f %%\t%.1f\t%s\t%s\t%s\t%s\t  %s\n", grouped(int64(step.Offered)), step.Seconds, grouped(int64(step.Offered*step.Achieved)), 100*step.Achieved,
			step.Result.MegabytesPerSecond, millis(l.P50), millis(l.P99), millis(l.P999), millis(l.P9999), verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	knee := "none of these rates is good"
	if s.Knee > 0 {
		knee = fmt.Sprintf("knee: %s records/s", grouped(int64(s.Knee)))
	}
	if s.Omitted {
		knee += ", or more: higher rates do not fit on the disk"
	}
	_, err := fmt.Fprintf(w, "%s; good is at least %.0f %% through and p99 under %s ms, over %g s\n", knee, 100*s.AchievedMin, millis(s.P99Max), s.StepSeconds)
	return err
}
