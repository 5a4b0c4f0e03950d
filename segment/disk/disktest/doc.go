// Package disktest is the one test suite that every disk passes: what the port
// core.DiskDriver promises, held by the disk in memory, the one on worker threads
// and the one on io_uring alike. A machine tested on one of them may run on all.
package disktest
