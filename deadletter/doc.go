// Package deadletter is what a record becomes when a queue group has given it up: the same record with headers that say
// where it comes from and why it is here. The broker writes dead letters, tools read them. Everything here is a pure
// function of the bytes given to it.
//
// Key, value and headers are what they were, and these headers come behind them. What began with mq- before is dropped,
// so that they tell of the last death:
//
//	mq-topic      name of the topic that the record was consumed from
//	mq-partition  its partition, decimal
//	mq-offset     its offset there, decimal
//	mq-timestamp  its time there, Unix milliseconds, decimal
//	mq-group      name of the queue group that gave it up
//	mq-attempts   how often it was delivered to that group, decimal
//	mq-reason     why: a word, or a word, ": " and what the member said
//
// A dead letter's own time is that of its burial, so that retention of the dead-letter topic counts from there: a record
// that was old when it died would else be gone before anybody had looked at it.
package deadletter
