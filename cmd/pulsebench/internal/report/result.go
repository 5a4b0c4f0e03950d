package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
)

// Workload is what a run was asked to do, with every default filled in.
type Workload struct {
	Command      string  `json:"command"` // produce, consume or e2e
	Client       string  `json:"client"`  // raw or sdk
	Topic        string  `json:"topic"`
	Partitions   int     `json:"partitions"`
	Durability   string  `json:"durability"`          // the topic's setting
	Reached      string  `json:"durability_reached"`  // the lowest that an acknowledgement named; empty when none did
	Acks         string  `json:"acks,omitempty"`      // of what was sent
	RecordBytes  int     `json:"record_bytes"`        // value of each record
	BatchRecords float64 `json:"batch_records"`       // effective: the mean
	BatchBytes   float64 `json:"batch_bytes"`         // effective: the mean, as sent and stored
	Compression  string  `json:"compression"`         // effective: none when packing gained nothing
	Connections  int     `json:"connections"`         // raw
	InFlight     int     `json:"in_flight,omitempty"` // requests of each connection
	Producers    int     `json:"producers,omitempty"` // sdk
	Consumers    int     `json:"consumers,omitempty"` // sdk
	Group        string  `json:"group,omitempty"`     // whose members the consumers are
	Queue        string  `json:"queue,omitempty"`     // a queue group, instead
	Rate         float64 `json:"rate"`                // records per second asked for; 0 flat out
	LatencyOf    string  `json:"latency_of"`          // what latency_ms measures
}

// Result is what a run has found. Its JSON form is a contract that scripts rely on.
type Result struct {
	RecordsPerSecond   float64          `json:"records_per_second"`
	MegabytesPerSecond float64          `json:"megabytes_per_second"`         // a million bytes each: of record values, or of whole batches when their values are not known
	Latency            *Latency         `json:"latency_ms"`                   // null when nothing was answered
	ProduceLatency     *Latency         `json:"produce_latency_ms,omitempty"` // of an end-to-end run
	Errors             int64            `json:"errors"`                       // requests refused
	ErrorsByCode       map[string]int64 `json:"errors_by_code,omitempty"`
	Verified           ledger.Verdict   `json:"verified"`
	Damages            []string         `json:"damages,omitempty"` // where the first of what is damaged or missing lies
	Records            int64            `json:"records"`
	Requests           int64            `json:"requests,omitempty"`
	Unsent             int64            `json:"unsent"`          // requests that were due and could not be sent in time
	ForeignRecords     int64            `json:"foreign_records"` // read, and of no run of this program
	Seconds            float64          `json:"seconds"`
	CPUSeconds         float64          `json:"cpu_seconds"`                  // processor time that pulsebench itself took meanwhile
	BrokerCPUSeconds   float64          `json:"broker_cpu_seconds,omitempty"` // the same of the broker, where it could be read
	ReadBack           *ReadBack        `json:"read_back,omitempty"`
	Workload           Workload         `json:"workload"`
	Environment        Environment      `json:"environment"`
}

// ReadBack is how fast the log was read to verify it.
type ReadBack struct {
	Records            int64   `json:"records"`
	Seconds            float64 `json:"seconds"`
	RecordsPerSecond   float64 `json:"records_per_second"`
	MegabytesPerSecond float64 `json:"megabytes_per_second"`
}

// NewReadBack works out the rates.
func NewReadBack(records, bytes int64, took time.Duration) *ReadBack {
	r := &ReadBack{Records: records, Seconds: took.Seconds()}
	r.RecordsPerSecond, r.MegabytesPerSecond = rates(records, bytes, took)
	return r
}

// SetRates fills in how fast the run was.
func (r *Result) SetRates(records, bytes int64, took time.Duration) {
	r.Records, r.Seconds = records, took.Seconds()
	r.RecordsPerSecond, r.MegabytesPerSecond = rates(records, bytes, took)
}

func rates(records, bytes int64, took time.Duration) (perSecond, megabytes float64) {
	if took <= 0 {
		return 0, 0
	}
	return float64(records) / took.Seconds(), float64(bytes) / 1e6 / took.Seconds()
}

// WriteJSON writes the result as one object.
func (r *Result) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
