package netio

import (
	"slices"
	"strconv"
	"strings"
)

const (
	// topicSeriesMax bounds the topics with series of their own; the others are
	// added up under topicOthers.
	topicSeriesMax = 1_000
	topicOthers    = "(others)"

	// partitionSeriesMax bounds the partitions with series of their own.
	partitionSeriesMax = 10_000
)

// topics writes the series per topic and per partition, both bounded.
func (m *Metrics) topics(p *page, partitions []PartitionSample) {
	slices.SortFunc(partitions, func(a, b PartitionSample) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Number) - int(b.Number)
	})
	var others topicSum
	topics, left := 0, 0
	for len(partitions) > 0 {
		n := 1
		for n < len(partitions) && partitions[n].Topic == partitions[0].Topic {
			n++
		}
		own := partitions[:n]
		partitions = partitions[n:]
		var sum topicSum
		for i := range own {
			sum.add(&own[i])
		}
		if topics >= topicSeriesMax {
			others.merge(&sum)
			left += n
			continue
		}
		topics++
		sum.write(p, own[0].Topic)
		for i := range own {
			if left+i >= partitionSeriesMax {
				break
			}
			writePartition(p, &own[i])
		}
		left += n
	}
	if others.partitions > 0 {
		others.write(p, topicOthers)
	}
	p.gauge("pulsemq_partitions_without_series", "Partitions beyond those that have series of their own.", float64(max(0, left-partitionSeriesMax)))
}

// topicSum adds up the partitions of one topic.
type topicSum struct {
	partitions                                 int
	messagesIn, bytesIn, messagesOut, bytesOut int64
	sizeBytes, riskBytes                       int64
	producers, damages, unavailable            int
}

func (s *topicSum) add(p *PartitionSample) {
	s.merge(&topicSum{
		partitions: 1,
		messagesIn: p.MessagesIn, bytesIn: p.BytesIn, messagesOut: p.MessagesOut, bytesOut: p.BytesOut,
		sizeBytes: p.SizeBytes, riskBytes: p.RiskBytes,
		producers: p.Producers, damages: p.Damages, unavailable: int(number(p.Unavailable)),
	})
}

func (s *topicSum) merge(o *topicSum) {
	s.partitions += o.partitions
	s.messagesIn += o.messagesIn
	s.bytesIn += o.bytesIn
	s.messagesOut += o.messagesOut
	s.bytesOut += o.bytesOut
	s.sizeBytes += o.sizeBytes
	s.riskBytes += o.riskBytes
	s.producers += o.producers
	s.damages += o.damages
	s.unavailable += o.unavailable
}

func (s *topicSum) write(p *page, topic string) {
	at := label{"topic", topic}
	p.gauge("pulsemq_topic_partitions", "Partitions of a topic on this node.", float64(s.partitions), at)
	p.counter("pulsemq_topic_messages_produced_total", "Records stored by topic.", float64(s.messagesIn), at)
	p.counter("pulsemq_topic_bytes_produced_total", "Bytes stored by topic.", float64(s.bytesIn), at)
	p.counter("pulsemq_topic_messages_consumed_total", "Records handed to consumers by topic.", float64(s.messagesOut), at)
	p.counter("pulsemq_topic_bytes_consumed_total", "Bytes handed to consumers by topic.", float64(s.bytesOut), at)
	p.gauge("pulsemq_topic_size_bytes", "Bytes on disk by topic.", float64(s.sizeBytes), at)
	p.gauge("pulsemq_topic_at_risk_bytes", "Bytes accepted and not durable by topic.", float64(s.riskBytes), at)
	p.gauge("pulsemq_topic_producers", "Idempotent producers remembered, summed over partitions.", float64(s.producers), at)
	p.gauge("pulsemq_topic_damages", "Damaged ranges by topic.", float64(s.damages), at)
	p.gauge("pulsemq_topic_partitions_unavailable", "Partitions that cannot serve.", float64(s.unavailable), at)
}

func writePartition(p *page, s *PartitionSample) {
	labels := []label{{"topic", s.Topic}, {"partition", strconv.FormatUint(uint64(s.Number), 10)}}
	p.gauge("pulsemq_partition_size_bytes", "Bytes on disk by partition.", float64(s.SizeBytes), labels...)
	p.gauge("pulsemq_partition_log_start_offset", "First offset still kept.", float64(s.LogStartOffset), labels...)
	p.gauge("pulsemq_partition_high_watermark", "One more than the last offset that consumers see.", float64(s.HighWatermark), labels...)
}
