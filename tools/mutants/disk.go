package main

// diskMutants are the rules of the disk drivers and of the disk in memory that the
// other tests stand on.
var diskMutants = []mutant{
	{
		Name:  "short-write-goes-on",
		Rule:  "A short write is written on before anything behind it in its chain; what cannot be written on fails the chain.",
		File:  "segment/disk/uring/vector.go",
		Find:  "		d.writeOn(s)\n",
		Put:   "",
		Tests: []string{"segment/disk/uring.TestShortWriteIsWrittenOn"},
	},
	{
		Name:  "vector-adjoins",
		Rule:  "One vectored write is made of writes that go on where the one before ends, in its file.",
		File:  "segment/disk/uring/vector.go",
		Find:  "next.file != s.file || next.op.Offset+int64(next.done) != end ||",
		Put:   "next.file != s.file ||",
		Tests: []string{"segment/disk/uring.TestWritesThatDoNotJoin"},
	},
	{
		Name:  "soft-links-only",
		Rule:  "Operations of a chain are tied by IO_LINK, never IO_HARDLINK: a failed write stops its sync.",
		File:  "segment/disk/uring/run.go",
		Find:  "entry.SetFlags(iouring.IOSQE_FLAGS_IO_LINK)",
		Put:   "entry.SetFlags(iouring.IOSQE_FLAGS_IO_HARDLINK)",
		Tests: []string{"segment/disk/uring.TestChainAsTheKernelSeesIt"},
	},
	{
		Name:  "interrupted-again",
		Rule:  "EINTR and EAGAIN are invisible: the operation starts again.",
		File:  "segment/disk/uring/run.go",
		Find:  "	case (errno == syscall.EAGAIN || errno == syscall.EINTR) && s.tries < triesMax:\n",
		Put:   "	case false:\n",
		Tests: []string{"segment/disk/uring.TestInterruptedOperationsStartAgain"},
	},
	{
		Name:  "short-read-goes-on",
		Rule:  "A short read is read on until the file's end.",
		File:  "segment/disk/uring/run.go",
		Find:  "		if result > 0 && s.done < len(op.Buf) && s.done%core.DiskAlignment == 0 {\n",
		Put:   "		if false {\n",
		Tests: []string{"segment/disk/uring.TestShortReadIsReadOn"},
	},
	{
		Name:  "fdatasync",
		Rule:  "A sync asks the kernel for fdatasync of the file itself.",
		File:  "segment/disk/uring/run.go",
		Find:  "		entry.PrepOperation(iouring.IORING_OP_FSYNC, fd, 0, 0, 0)\n\t\tentry.SetOpFlags(iouring.IORING_FSYNC_DATASYNC)\n",
		Put:   "		entry.PrepOperation(iouring.IORING_OP_NOP, fd, 0, 0, 0)\n",
		Tests: []string{"segment/disk/uring.TestChainAsTheKernelSeesIt"},
	},
	{
		Name:  "crash-forgets-data",
		Rule:  "The disk in memory forgets at a power cut what was not synced.",
		File:  "segment/disk/mem/crash.go",
		Find:  "			n.file.lose(dice, options)\n",
		Put:   "",
		Tests: []string{"segment/disk/mem.TestCrashDropsWhatIsNotSynced"},
	},
	{
		Name:  "crash-forgets-entries",
		Rule:  "The disk in memory forgets at a power cut names whose folder was not synced.",
		File:  "segment/disk/mem/crash.go",
		Find:  "	c.loseEntries(dice, options.Entries)\n",
		Put:   "",
		Tests: []string{"segment/disk/mem.TestCrashDropsEntries"},
	},
}
