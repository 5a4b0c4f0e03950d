// Package pulsemq is the Go client of the PulseMQ message broker.
//
// A [Client] knows a cluster. From it come a [Producer] that sends messages, a [Consumer] that reads partitions, members of
// groups ([GroupConsumer], [QueueConsumer]), and [Admin] for topics. One Client per program is enough; it, its producers and its consumers are safe for use by many
// goroutines.
//
//	Client ── cluster: brokers, topics, leaders ─────┐
//	  ├─ Producer ── queue per partition ── scheduler ├─ link per broker and role ── connection
//	  ├─ Consumer ── part per partition ─── scheduler ┤
//	  ├─ QueueConsumer ── leasing per broker ─────────┤
//	  └─ Admin ───────────────────────────────────────┘
//
// # Connections
//
// A broker has one connection for all producers and Admin, and one for all consumers: a fetched megabyte must not stand
// in front of acknowledgements, nor long polls in the window that producing needs. Requests are pipelined, up to the
// window that the broker grants. A connection that is silent for three keepalives, or later with an answer than
// [ClientRequestTimeout], ends; its requests are repeated on the next one where that is safe. Names are resolved again
// for each attempt to connect.
//
// # What a result means
//
// Each message that SendAsync takes has exactly one result. Without an error it is stored at the offset that the result
// names, with the durability that it names. With an error it is not stored if the error is the broker's refusal, and may
// be stored if nobody answered in time: [ErrDeliveryTimeout], or [ErrClosed] from Close. The delivery timeout holds
// whatever the broker does.
//
// # Once and in order
//
// Records carry a producer id and a sequence, and the broker stores each sequence once. When a batch fails in a way that
// can be repeated, everything of its partition that is in flight comes back first, and then all that failed is sent
// again in the same order with the same sequences. So a retry neither doubles nor reorders.
//
// A sequence is never given to other records. A batch that is given up leaves a gap, and the broker refuses the next ones
// with OUT_OF_ORDER_SEQUENCE: its word that none of them is stored. Only then are they numbered anew, under another
// producer id. UNKNOWN_PRODUCER is no such word, because a broker that has forgotten the producer cannot tell what it
// stored: batches that were never sent, or whose every attempt was refused, go on under another id, and one whose attempt
// ended without an answer fails with that error. The application knows whether its messages may come twice.
//
// This holds for the life of a Producer. A program that starts again and sends the same messages again stores them again.
//
// # Consuming
//
// A consumer reads the partitions it is told to, by asking each ([ConsumerPull]) or by being sent to ([ConsumerPush]).
// Nothing keeps its place but [Consumer.Positions]. What happens to a partition is told by [PartitionError], in line with
// the records: offsets that do not exist any more, records that a broker lost (LOG_TRUNCATED: the consumer goes on where
// the logs part), damaged records. Bytes that fail their checksum are asked for again before they are reported.
//
// Records may be kept, for nothing writes over them. A program that reads much and keeps none spares the collector most of
// its work, and itself more than half of its processor time, with [ConsumerReuse], or GroupReads(ConsumerReuse()) in a
// group: then they are good until the next Poll.
//
// # Queues
//
// A [QueueConsumer] has one subscription with each broker that leads partitions of its group, and is leased as many
// messages as [QueuePrefetch] says. Outcomes gather for each partition while one SETTLE is on its way. When a connection
// ends, the broker takes back what was leased over it: messages that wait here are dropped, and the context of those that
// are worked on ends. A member that was removed joins anew at once; what it had begun may still be settled under the id
// that it was leased to.
//
// # Errors
//
// Every code of the protocol is a value here: errors.Is(err, pulsemq.ErrUnknownTopic). Details are in [Error], found with
// errors.As. [Retriable] tells whether the same call may succeed later. An error of the caller's context stays one.
//
// # Where to look
//
//	a message is late, twice or out of order   queue.go, answer.go
//	the buffer is full                         buffer.go, deliver.go
//	a consumer stands still                    part.go, then pull.go or push.go
//	records are stale after a seek             part.go (generation), poll.go
//	a queue's message is late or comes twice   queue_lease.go, queue_settle.go, queue_member.go (extend)
//	a connection ends or none is made          internal/conn, internal/cluster/link.go
//	the wrong leader is asked                  internal/cluster/metadata.go
package pulsemq
