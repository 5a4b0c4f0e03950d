// Package arena gives out payload memory in slabs, outside the Go heap and on
// huge pages, within a fixed budget.
//
//	reserved address space, 2 MiB aligned, one mapping
//	┌──────────────┬──────────────┬──────────────┬──────────────┬─ ─ ─
//	│ block 0      │ block 1      │ block 2      │ block 3      │
//	│ 512 x 4 KiB  │ 1 x 2 MiB    │ free         │ 8 x 256 KiB  │
//	└──────────────┴──────────────┴──────────────┴──────────────┴─ ─ ─
//
// A block is one huge page and belongs to one size class while any of its slabs
// is out; when the last comes home the block is free for any class. So no class
// has a share of its own that could run out while others lie idle.
//
// Memory is touched on use. Blocks that were used before are given out first, and
// Trim returns the free ones to the kernel.
//
// An Arena belongs to one thread, which gets slabs, and takes them back from one
// other thread through a ring that has room for every slab there can be, so that
// a release never waits. A Local belongs to one thread altogether.
package arena
