// Forgetful is a FUSE loopback file system that simulates the loss of power exactly, and the ways in which a disk fails.
//
// BACKING always holds exactly the durable state. Everything not yet synced (the data of files, their sizes, operations on
// names) is in this process's memory alone, so a power cut is to forget the memory.
//
//	control.go ── commands ──> fault.go, cut.go ── tear.go
//	kernel ──> fuse_*.go ──> handle.go ──> inode.go: overlay.go over backing.go
//	                    └──> folder.go ──> operation.go ── commit.go ──> names in BACKING
//
// README.md says what is durable when, and what FUSE cannot show.
package main
