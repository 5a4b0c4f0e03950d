package report

import (
	"fmt"
	"io"
	"strings"
)

// Picture is an image file that lies beside a page, and what it shows.
type Picture struct {
	Name string
	Of   string
}

// WriteMarkdown writes a comparison, and what has to be said with it, as a page: first what is held against a floor,
// then every figure. Commands stand between fences, because they are a record of what was done and no example.
func (c *Comparison) WriteMarkdown(w io.Writer, pictures ...Picture) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", c.Title)
	c.writeContext(&b)
	c.writeFloors(&b)
	for _, p := range pictures {
		fmt.Fprintf(&b, "\n![%s](%s)\n", p.Of, p.Name)
	}
	c.writeFigures(&b)
	b.WriteString("\n## The broker's side again\n\nWhat each row sends, for a broker that runs already; `--brokers` names it.\n\n```\n")
	for i := range c.Rows {
		for _, command := range c.Rows[i].Commands {
			b.WriteString(command + "\n")
		}
	}
	b.WriteString("```\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeContext says what the figures depend on.
func (c *Comparison) writeContext(b *strings.Builder) {
	env := &c.Environment
	fmt.Fprintf(b, "%s, %d cores, %s of memory, %s %s, %s; broker, ceiling and load client share this one machine.\n",
		or(env.CPUModel), env.Cores, bytesText(float64(env.Memory)), or(env.Kernel), env.Arch, or(env.FileSystem))
	fmt.Fprintf(b, "Version %s, built with %s, measured %s. %s, each of %g s where a row says nothing else; a run's ceiling and its broker come\nright after each other.\n",
		env.Version, env.Go, env.Time.Format("2006-01-02 15:04 UTC"), medians(c.Runs), c.Duration)
	fmt.Fprintf(b, "Every record that was produced was read back: none lost, none twice, none out of order, or the row has no figures. The\nbroker runs with %s.\n\n```\n%s\n```\n", settings(c.BrokerArguments), env.Command)
}

// medians says how a figure comes about.
func medians(runs int) string {
	if runs == 1 {
		return "One run of everything, so nothing says how far chance goes"
	}
	return fmt.Sprintf("Medians of %d runs", runs)
}

// settings names what the broker was told beside its addresses and its data folder.
func settings(arguments []string) string {
	if len(arguments) == 0 {
		return "its default settings"
	}
	return "`" + CommandLine(arguments) + "`"
}

// writeFloors writes a line for each figure that is held against a floor, with the share of its row's ceiling.
func (c *Comparison) writeFloors(b *strings.Builder) {
	b.WriteString("\n| row | workload | figure | floor | median | spread | of the ceiling | |\n|---|---|---|---|---|---|---|---|\n")
	for i := range c.Rows {
		row := &c.Rows[i]
		name, workload := "`"+row.Name+"`", row.Workload
		if row.Skipped != "" {
			fmt.Fprintf(b, "| %s | %s | not measured: %s | | | | | not met |\n", name, workload, cell(row.Skipped))
		}
		share := ""
		for k := range row.Figures {
			if f := &row.Figures[k]; f.Unit == UnitShare && len(f.Values) > 0 {
				share = f.value()
				break
			}
		}
		for k := range row.Figures {
			f := &row.Figures[k]
			if f.Floor == nil {
				continue
			}
			of := share
			if f.Unit == UnitShare {
				of = ""
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", name, workload, f.What, f.Floor.Text(f.Unit), f.value(), f.spread(), of, f.verdict())
			name, workload, share = "", "", ""
		}
	}
}

// writeFigures writes everything that was measured.
func (c *Comparison) writeFigures(b *strings.Builder) {
	b.WriteString("\n## Every figure\n\n| row | figure | median | spread |\n|---|---|---|---|\n")
	for i := range c.Rows {
		row := &c.Rows[i]
		name := "`" + row.Name + "`"
		for k := range row.Figures {
			f := &row.Figures[k]
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, f.What, f.value(), f.spread())
			name = ""
		}
		for _, note := range row.Notes {
			fmt.Fprintf(b, "| %s | %s | | |\n", name, cell(note))
			name = ""
		}
	}
}

// cell is a text that does not end the cell of a table that it stands in.
func cell(text string) string { return strings.ReplaceAll(firstLine(text), "|", "\\|") }
