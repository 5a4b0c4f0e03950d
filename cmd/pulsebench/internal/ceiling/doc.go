// Package ceiling measures what a machine can do with the frames and sizes of a workload when no broker does any work:
//
//	echo.go      a server of frames that reads PRODUCE, keeps nothing and acknowledges it: what loopback, the
//	             kernel's TCP and the load client leave to a broker
//	disk.go      what is measured of a disk, and how it is summed up
//	disk_linux.go writes with O_DIRECT, writes with an fdatasync behind each, reads with O_DIRECT
//
// A figure of a broker means little by itself: it is read as a share of these, measured in the same run.
package ceiling
