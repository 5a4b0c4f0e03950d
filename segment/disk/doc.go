// Package disk opens a data folder with the best driver that the machine allows:
// io_uring (disk/uring), else worker threads (disk/posix). A third, in memory and
// able to fail in every way (disk/mem), is for tests and simulations. All pass one
// suite (disk/disktest).
//
//	folder, err := disk.Open(dir, core.DiskAuto)        // once per process: takes the lock
//	folder.Choice()                                     // which driver, and why
//	folder.FS()                                         // blocking view: start-up, workers, tools
//	driver, choice, err := folder.Driver(waker, bounds) // once per shard, on its pinned thread
package disk
