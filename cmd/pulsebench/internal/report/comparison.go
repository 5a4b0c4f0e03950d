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
	Seconds  float64  `json:"seconds"` // that the row took
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
	fmt.Fprintf(t, "workload\tfigure\tmedian of %d\tspread\tfloor\theld\n", c.Runs)
	for i := range c.Rows {
		row := &c.Rows[i]
		name := row.Name
		if row.Skipped != "" {
			fmt.Fprintf(t, "%s\tnot measured: %s\t\t\t\t\n", name, row.Skipped)
		}
		for k := range row.Figures {
			f := &row.Figures[k]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", name, f.What, f.value(), f.spread(), f.Floor.text(f.Unit), f.verdict())
			name = ""
		}
	}
	return t.Flush()
}

// WriteMarkdown writes the table, and what has to be said with it, as a page. pictures are the names of image files
// beside it.
func (c *Comparison) WriteMarkdown(w io.Writer, pictures ...string) error {
	var b strings.Builder
	env := &c.Environment
	fmt.Fprintf(&b, "# %s\n\n", c.Title)
	fmt.Fprintf(&b, "%s, %d cores, %s of memory, %s %s, %s; broker, ceiling and load client on this one machine.\n",
		or(env.CPUModel), env.Cores, bytesText(float64(env.Memory)), or(env.Kernel), env.Arch, or(env.FileSystem))
	fmt.Fprintf(&b, "Built with %s, version %s, measured %s. Medians of %d runs of %g s; each run's ceiling and broker right after each other.\n",
		env.Go, env.Version, env.Time.Format("2006-01-02 15:04 UTC"), c.Runs, c.Duration)
	b.WriteString("Every record that was produced was read back and verified.\n\n")
	fmt.Fprintf(&b, "    %s\n\n", env.Command)
	for _, picture := range pictures {
		fmt.Fprintf(&b, "![%s](%s)\n\n", strings.TrimSuffix(picture, ".svg"), picture)
	}
	b.WriteString("| workload | figure | median | spread | floor | held |\n|---|---|---|---|---|---|\n")
	for i := range c.Rows {
		row := &c.Rows[i]
		name := row.Workload
		if row.Skipped != "" {
			fmt.Fprintf(&b, "| %s | not measured: %s | | | | |\n", name, row.Skipped)
		}
		for k := range row.Figures {
			f := &row.Figures[k]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, f.What, f.value(), f.spread(), f.Floor.text(f.Unit), f.verdict())
			name = ""
		}
	}
	b.WriteString("\n## Again\n\n")
	for i := range c.Rows {
		for _, command := range c.Rows[i].Commands {
			fmt.Fprintf(&b, "    %s\n", command)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
