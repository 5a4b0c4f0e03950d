package ceiling

import (
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// Batches that the server shows are as large as those that the broker's side of a comparison was filled with.
	logBatchRecords = 1000
	logRecordBytes  = 256

	// logBatchesMax bounds what one answer holds; a socket takes far fewer at once.
	logBatchesMax = 256
)

// shownLog is what FETCH finds in each partition: batches that are made as they are asked for, out of a head of their
// own and one body. They can be verified as those of any run can.
type shownLog struct {
	template *payload.Template
	records  int64 // in each partition, a multiple of logBatchRecords
}

// newShownLog rounds the records of each partition up to whole batches; 0 shows empty partitions.
func newShownLog(records int64) (*shownLog, error) {
	template, err := payload.NewTemplate(payload.Spec{Run: 1, Records: logBatchRecords, RecordBytes: logRecordBytes})
	if err != nil {
		return nil, err
	}
	return &shownLog{template: template, records: (records + logBatchRecords - 1) / logBatchRecords * logBatchRecords}, nil
}

// answer is a whole frame, in parts that stay as they are until heads is used again.
func (l *shownLog) answer(id uint64, request *proto.FetchRequest, heads []byte, parts [][]byte) ([]byte, [][]byte) {
	from := max(request.Offset, 0) / logBatchRecords
	batches := min(max(int64(request.MaxBytes)/int64(l.template.BatchBytes()), 1), logBatchesMax, max(l.records/logBatchRecords-from, 0))
	response := proto.FetchResponse{LeaderEpoch: 1, HighWatermark: l.records, LogEndOffset: l.records}
	header := proto.FrameHeader{Version: proto.CommandFetch.Version(), Command: proto.CommandFetch, Answer: true, RequestID: id}
	// Parts must not move: everything that is appended here has its room beforehand.
	if need := proto.FrameHeaderBytes + response.HeadSize() + int(batches)*l.template.HeadBytes(); cap(heads) < need {
		heads = make([]byte, 0, need)
	}
	heads = proto.AppendFrameHeader(heads[:0], header, response.HeadSize()+int(batches)*l.template.BatchBytes())
	heads = response.AppendHead(heads)
	parts = append(parts[:0], heads)
	for n := from; n < from+batches; n++ {
		begin := len(heads)
		heads = l.template.AppendHead(heads, payload.Mark{Producer: request.Partition, Counter: uint64(n)}, 1)
		head := proto.Batch(heads[begin:len(heads):len(heads)])
		head.SetBaseOffset(n * logBatchRecords)
		head.SetLeaderEpoch(1)
		parts = append(parts, head, l.template.Tail())
	}
	return heads, parts
}
