package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is what one workload came to.
type Row struct {
	Name     string   `json:"name"`
	Workload string   `json:"workload"`          // for people
	Commands []string `json:"commands"`          // repeat the broker's side
	Skipped  string   `json:"skipped,omitempty"` // why there are no figures
	Figures  []Figure `json:"figures"`
	Notes    []string `json:"notes,omitempty"` // what has to be said with the figures
	Seconds  float64  `json:"seconds"`         // that the row took
}

// Add adds a figure.
func (r *Row) Add(what, unit string, values []float64, floor *Bound) {
	r.Figures = append(r.Figures, NewFigure(what, unit, values, floor))
}

// Figure is the one of that name; nil when there is none.
func (r *Row) Figure(what string) *Figure {
	for i := range r.Figures {
		if r.Figures[i].What == what {
			return &r.Figures[i]
		}
	}
	return nil
}

// Comparison is a table of rows that were measured in one call.
type Comparison struct {
	Title       string      `json:"title"`
	Runs        int         `json:"runs"` // of each row
	Duration    float64     `json:"seconds_of_each_run"`
	Rows        []Row       `json:"rows"`
	Environment Environment `json:"environment"`

	// BrokerArguments are the settings that the broker was started with, beside its addresses and its data folder.
	BrokerArguments []string `json:"broker_arguments"`
}

// NewComparison begins one.
func NewComparison(title string, runs int, each time.Duration, environment Environment) *Comparison {
	return &Comparison{Title: title, Runs: runs, Duration: each.Seconds(), Environment: environment}
}

// WriteJSON writes the table as one object.
func (c *Comparison) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(c)
}

// WriteTable prints the table for people.
func (c *Comparison) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "workload\tfigure\tmedian of %d\tspread\tfloor\t\n", c.Runs)
	for i := range c.Rows {
		row := &c.Rows[i]
		name := row.Name
		if row.Skipped != "" {
			fmt.Fprintf(t, "%s\tnot measured: %s\t\t\t\t\n", name, firstLine(row.Skipped))
		}
		for k := range row.Figures {
			f := &row.Figures[k]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", name, f.What, f.value(), f.spread(), f.Floor.Text(f.Unit), f.verdict())
			name = ""
		}
	}
	return t.Flush()
}

// firstLine is what a cell of a table takes of a longer text.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text
}
