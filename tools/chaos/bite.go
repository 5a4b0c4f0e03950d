package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pulsemq/pulsemq/tools/overlay"
)

// biteRounds bounds how many rounds may pass before the loss shows.
const biteRounds = 10

// bite is a broker that forgets to make something durable: a text of the source is taken out. What loses power under it
// has to find acknowledged records lost, or the tests that never do prove nothing.
type bite struct {
	name   string
	strict bool // on a disk where only the sync of a folder makes names durable
	edits  []overlay.Edit
}

var bites = []bite{
	{name: "no fdatasync", edits: []overlay.Edit{
		{File: "segment/disk/uring/run.go", Find: "entry.PrepOperation(iouring.IORING_OP_FSYNC, fd, 0, 0, 0)\n\t\tentry.SetOpFlags(iouring.IORING_FSYNC_DATASYNC)", Put: "entry.PrepOperation(iouring.IORING_OP_NOP, fd, 0, 0, 0)"},
		{File: "segment/disk/posix/execute.go", Find: "err = syncData(file)", Put: "err = nil"},
	}},
	{name: "no fdatasync of segments", edits: []overlay.Edit{
		{File: "segment/writer.go", Find: "\tif w.sync {\n\t\tw.add(core.DiskOp{Kind: core.DiskSync, File: g.file})\n\t}\n\ts.submitChain(w)", Put: "\ts.submitChain(w)"},
	}},
	{name: "no sync of a new segment's folder", strict: true, edits: []overlay.Edit{
		{File: "segment/writer.go", Find: "w.add(core.DiskOp{Kind: core.DiskSyncDir, Path: g.dir()})", Put: ""},
	}},
	{name: "no sync of any folder", strict: true, edits: []overlay.Edit{
		{File: "segment/disk/posix/folder.go", Find: "return f.names.syncDir(path)", Put: "return nil"},
	}},
}

var biteScenario = scenario{name: "bite", what: "the loss of power finds what a broker loses that does not sync", lack: lackBite, play: playBite}

// lackBite says why such brokers cannot be built and tried here.
func lackBite(s *stage) error {
	if _, err := overlay.Root(context.Background()); err != nil {
		return fmt.Errorf("building a broker that does not sync needs the go command and the source: %w", err)
	}
	return lackForgetful(s)
}

func playBite(ctx context.Context, s *stage) error {
	root, err := overlay.Root(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, b := range bites {
		if err := b.play(ctx, s, root); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", b.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// lost matches what an audit says of records that were acknowledged and are gone, what a client is told of topics that
// were created and are gone, and what a broker says at its start that finds its data damaged.
var lost = regexp.MustCompile(`acknowledged there was|is missing|are missing|and the log ends at|is gone|is not there|CORRUPT_RECORD|UNKNOWN_TOPIC|PARTITION_UNAVAILABLE|OFFSET_OUT_OF_RANGE|did not start`)

// play requires that the loss of power is noticed, and that it is the missing sync which it notices: the broker as it is
// loses nothing on the same disk with the same seed, in as many rounds.
func (b *bite) play(ctx context.Context, s *stage, root string) error {
	folder := filepath.Join(s.folder, strings.ReplaceAll(b.name, " ", "-"))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	program, err := b.build(ctx, root, folder)
	if err != nil {
		return err
	}
	bitten := b.plan(s, program, folder, biteRounds)
	if err = bitten.run(ctx); err == nil {
		return fmt.Errorf("it lost nothing in %d rounds", biteRounds)
	}
	failure, _, _ := strings.Cut(err.Error(), "; its log ") // whose lines may say anything
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !lost.MatchString(failure):
		return fmt.Errorf("it failed, and not for what it lost: %w", err)
	}
	first, more, _ := strings.Cut(failure, "\n")
	if !lost.MatchString(first) {
		first += "; " + strings.TrimSpace(lost.FindString(more))
	}
	whole := b.plan(s, s.program, folder+"-whole", bitten.began)
	if err := whole.run(ctx); err != nil {
		return fmt.Errorf("the broker as it is failed as well, so that this proves nothing: %w\nwithout the sync: %s", err, first)
	}
	s.say("%s, seed %d: %s; the broker as it is lost nothing in %d rounds", b.name, s.seed, first, bitten.began)
	return nil
}

func (b *bite) plan(s *stage, program, folder string, rounds int) *plan {
	return &plan{program: program, folder: folder, forgetful: s.forgetful, strict: b.strict, faults: []string{"power"}, rounds: rounds, seed: s.seed, say: s.say}
}

func (b *bite) build(ctx context.Context, root, folder string) (program string, err error) {
	laid, err := overlay.Write(root, folder, b.edits)
	if err != nil {
		return "", err
	}
	program = filepath.Join(folder, "pulsemq")
	command := exec.CommandContext(ctx, "go", "build", "-overlay", laid, "-o", program, "./cmd/pulsemq")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("go build: %w", err), errors.New(string(out)))
	}
	return program, nil
}
