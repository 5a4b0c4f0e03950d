package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ceiling"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

const (
	// fileSizeDefault is larger than what disks keep in memory of their own.
	fileSizeDefault = "1GiB"
	fileBytesMin    = 16 << 20

	// directDepth is how many writes and reads are in flight where one does not keep a disk busy.
	directDepth = 4

	// readBytes is the size of the broker's large reads.
	readBytes = 1 << 20
)

// groupBytes are the sizes of write+fdatasync: from one small record to a group of many large batches.
var groupBytes = []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

// ceilingCommand measures what the machine can do.
type ceilingCommand struct {
	bench
	fileSize  string
	jsonFile  string
	diskOnly  bool
	loops     int
	shape     workload // its flags say what the frames look like
	fileBytes int64
}

func newCeiling(s *session) *cobra.Command {
	c := &ceilingCommand{bench: bench{session: s}}
	cmd := &cobra.Command{
		Use:   "ceiling",
		Short: "Measure what this machine can do with the same frames and sizes, without a broker",
		Long: `Measures, each --runs times and one after the other:

  echo over loopback   the frames that produce would send, to a server that reads them and
                       acknowledges at once; same client, process of its own
  write, O_DIRECT      blocks as large as such a frame
  write+fdatasync      the same file, one at a time: how long one takes with a single record,
                       and how much goes through in groups of several sizes
  read, O_DIRECT       blocks of 1 MiB

The file is written once beforehand, and is gone afterwards.`,
		Example: `  pulsebench ceiling --dir /var/lib/pulsemq
  pulsebench ceiling --dir . --batch-records 1 --connections 64 --in-flight 32 --json ceiling.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validateAll(cmd); err != nil {
				return err
			}
			return c.run(cmd.Context())
		},
	}
	c.addRuns(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.shape.recordSize, "record-size", recordSizeDefault, "`size` of each record's value")
	flags.IntVar(&c.shape.batchRecords, "batch-records", batchDefault, "records in each batch")
	flags.IntVar(&c.shape.connections, "connections", connectionsDefault, "connections of the echo")
	flags.IntVar(&c.shape.inFlight, "in-flight", inFlightDefault, "requests in flight on each of them")
	flags.Uint32Var(&c.shape.partitions, "partitions", 128, "partitions that the echo's requests name in turns")
	flags.IntVar(&c.loops, "loops", loopsDefault(), "event loops of the echo server (default: as many as the broker has)")
	flags.StringVar(&c.fileSize, "file-size", fileSizeDefault, "`size` of the file on the disk")
	flags.BoolVar(&c.diskOnly, "disk-only", false, "leave out the echo")
	flags.StringVar(&c.jsonFile, "json", "", "`file` for the result as JSON; - is standard output, and the table goes to standard error")
	return cmd
}

func (c *ceilingCommand) validateAll(cmd *cobra.Command) error {
	if err := c.bench.validate(); err != nil {
		return err
	}
	size, err := core.ParseSize(c.fileSize)
	if err != nil || size < fileBytesMin {
		return usagef("--file-size %s: it is a size of at least %v", c.fileSize, core.Size(fileBytesMin))
	}
	c.fileBytes = int64(size)
	if _, err := c.workload(c.frames()); err != nil {
		return err
	}
	return nil
}

// frames are the arguments of a produce with such frames.
func (c *ceilingCommand) frames() []string {
	return []string{"produce", "--record-size", c.shape.recordSize, "--batch-records", number(int64(c.shape.batchRecords)),
		"--connections", number(int64(c.shape.connections)), "--in-flight", number(int64(c.shape.inFlight))}
}

func (c *ceilingCommand) run(ctx context.Context) error {
	out := report.NewComparison("Ceiling of this machine", c.runs, c.duration, report.NewEnvironment(core.Version, c.folder))
	if !c.diskOnly {
		row := report.Row{Name: "echo", Workload: "frames over loopback, acknowledged and forgotten"}
		if err := c.echo(ctx, &row); err != nil {
			return fmt.Errorf("echo: %w", err)
		}
		out.Rows = append(out.Rows, row)
	}
	if err := c.disk(ctx, out); err != nil {
		return fmt.Errorf("disk of %s: %w", c.folder, err)
	}
	return c.write(c.jsonFile, out)
}

// echo measures loopback.
func (c *ceilingCommand) echo(ctx context.Context, row *report.Row) error {
	server, err := host.StartEcho(c.folder, "--loops", number(int64(c.loops)), "--partitions", number(int64(c.shape.partitions)))
	if err != nil {
		return err
	}
	defer server.Destroy()
	var results []*report.Result
	for range c.runs {
		result, err := c.measure(ctx, side{server: server, args: append(c.frames(), lasting(c.duration)...), blind: true})
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	row.Add("echo", report.UnitRecords, each(results, func(r *report.Result) float64 { return r.RecordsPerSecond }), nil)
	row.Add("echo, bytes", report.UnitBytes, each(results, func(r *report.Result) float64 { return r.MegabytesPerSecond }), nil)
	latencies(row, results)
	row.Add("echo's processors", report.UnitCores, each(results, func(r *report.Result) float64 { return cores(r.BrokerCPUSeconds, r) }), nil)
	row.Add("client's processors", report.UnitCores, each(results, func(r *report.Result) float64 { return cores(r.CPUSeconds, r) }), nil)
	return server.Stop()
}

// disk measures the disk.
func (c *ceilingCommand) disk(ctx context.Context, out *report.Comparison) error {
	shape, err := c.workload(c.frames())
	if err != nil {
		return err
	}
	frame := ceiling.Align(shape.batchRecords * (shape.recordBytes + recordOverhead))
	if int64(frame) > c.fileBytes {
		return fmt.Errorf("a batch of %d bytes: --file-size %s is smaller", frame, c.fileSize)
	}
	file, err := (ceiling.Disk{Folder: c.folder, FileBytes: c.fileBytes, Duration: c.duration}).Open(ctx)
	if err != nil {
		return err
	}
	defer file.Close()
	type access struct {
		ceiling.Access
		name string
	}
	accesses := []access{
		{ceiling.Access{Operation: ceiling.Write, Bytes: frame, InFlight: directDepth}, fmt.Sprintf("write, O_DIRECT, %d KiB, %d in flight", frame>>10, directDepth)},
		{ceiling.Access{Operation: ceiling.Read, Bytes: readBytes, InFlight: 1}, fmt.Sprintf("read, O_DIRECT, %d KiB, 1 in flight", readBytes>>10)},
		{ceiling.Access{Operation: ceiling.Read, Bytes: readBytes, InFlight: directDepth}, fmt.Sprintf("read, O_DIRECT, %d KiB, %d in flight", readBytes>>10, directDepth)},
	}
	for _, bytes := range groupBytes {
		accesses = slices.Insert(accesses, len(accesses)-2, access{ceiling.Access{Operation: ceiling.WriteSync, Bytes: bytes, InFlight: 1},
			fmt.Sprintf("write+fdatasync, %d KiB, 1 in flight", bytes>>10)})
	}
	for _, a := range accesses {
		var measures []*ceiling.Measure
		for range c.runs {
			m, err := file.Measure(ctx, a.Access, c.duration)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			measures = append(measures, m)
		}
		row := report.Row{Name: a.name, Workload: a.name}
		fillDisk(&row, measures)
		out.Rows = append(out.Rows, row)
	}
	return nil
}

// recordOverhead is about what a record of a batch takes beside its value.
const recordOverhead = 8

// fillDisk turns runs into figures.
func fillDisk(row *report.Row, measures []*ceiling.Measure) {
	var bytes, operations, p50, p99 []float64
	for _, m := range measures {
		l := report.LatencyOf(m.Latency)
		bytes, operations = append(bytes, m.MegabytesPerSecond()), append(operations, m.OperationsPerSecond())
		if l != nil {
			p50, p99 = append(p50, l.P50), append(p99, l.P99)
		}
	}
	row.Add("bytes", report.UnitBytes, bytes, nil)
	row.Add("operations", report.UnitOperations, operations, nil)
	row.Add("p50", report.UnitMillis, p50, nil)
	row.Add("p99", report.UnitMillis, p99, nil)
}

// write prints a table and writes its JSON where that was asked for.
func (b *bench) write(jsonFile string, c *report.Comparison) error {
	table := b.out
	switch jsonFile {
	case "":
	case "-":
		table = b.err
		if err := c.WriteJSON(b.out); err != nil {
			return err
		}
	default:
		if err := writeFile(jsonFile, c.WriteJSON); err != nil {
			return err
		}
	}
	return c.WriteTable(table)
}
