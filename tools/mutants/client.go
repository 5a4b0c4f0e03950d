package main

// clientMutants are the rules of the Go client by which it keeps the broker's promise.
var clientMutants = []mutant{
	{
		Name:  "retry-keeps-its-sequence",
		Rule:  "A batch that is sent again keeps the sequence it was first sent with.",
		File:  "clients/go/queue.go",
		Find:  "	if p.config.idempotent && !b.numbered {\n",
		Put:   "	if p.config.idempotent {\n",
		Tests: []string{"clients/go.TestRetriesStoreOnceInOrder"},
	},
	{
		Name:  "sequence-counts-records",
		Rule:  "The next batch's sequence goes on behind the records of the one before.",
		File:  "clients/go/queue.go",
		Find:  "		q.sequence = proto.SequenceAdd(q.sequence, int32(b.count()))\n",
		Put:   "		q.sequence = proto.SequenceAdd(q.sequence, 1)\n",
		Tests: []string{"clients/go.TestRetriesStoreOnceInOrder"},
	},
	{
		Name:  "halves-keep-the-sequence",
		Rule:  "A batch that was too large is sent in halves, which keep its sequences.",
		File:  "clients/go/batch.go",
		Find:  "		second.number(b.id, b.epoch, proto.SequenceAdd(b.sequence, int32(n)))\n",
		Put:   "		second.number(b.id, b.epoch, b.sequence)\n",
		Tests: []string{"clients/go.TestTooLargeBatchIsHalved"},
	},
	{
		Name:  "delivery-timeout",
		Rule:  "A send whose delivery timeout has passed ends with an error, whatever the broker does.",
		File:  "clients/go/queue.go",
		Find:  "		if now.Before(b.deadline) {\n\t\t\treturn nil\n\t\t}\n\t\treturn q.timeout(b)\n",
		Put:   "		return nil\n",
		Tests: []string{"clients/go.TestDeliveryTimeout"},
	},
	{
		Name:  "corrupt-is-told",
		Rule:  "A damaged range is told to the application, with its offsets.",
		File:  "clients/go/part.go",
		Find:  "		e := &PartitionError{Err: err, Base: max(d.BaseOffset, p.next), Next: d.NextOffset, Stopped: !k.config.skipCorrupt}\n",
		Put:   "		e := &PartitionError{Err: err, Base: p.next, Next: p.next, Stopped: !k.config.skipCorrupt}\n",
		Tests: []string{"clients/go.TestCorruptRecord"},
	},
	{
		Name:  "bit-flip-is-asked-again",
		Rule:  "Bytes that fail their checksum on arrival are asked for again and never returned.",
		File:  "clients/go/part.go",
		Find:  "	if p.refetches < refetchesMax {\n",
		Put:   "	if false {\n",
		Tests: []string{"clients/go.TestBitFlipOnTheWay"},
	},
	{
		Name:  "stale-after-seek",
		Rule:  "Nothing that was read ahead is returned after Seek.",
		File:  "clients/go/part.go",
		Find:  "	p.generation++\n\tfor _, i := range p.items {\n",
		Put:   "	for _, i := range p.items {\n",
		Tests: []string{"clients/go.TestNothingStaleAfterSeek"},
	},
	{
		Name:  "out-of-range-is-told",
		Rule:  "A position below the log start follows the policy and is told to the application.",
		File:  "clients/go/part.go",
		Find:  "	p.report(&PartitionError{Err: err, Base: base, Next: to})\n",
		Put:   "",
		Tests: []string{"clients/go.TestOffsetOutOfRange"},
	},
}
