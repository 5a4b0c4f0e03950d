package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// biteRounds bounds how many rounds may pass before the loss shows.
const biteRounds = 10

// bite is a broker that forgets to make something durable: a text of the source is taken out. What loses power under it
// has to find acknowledged records lost, or the tests that never do prove nothing.
type bite struct {
	name    string
	strict  bool // on a disk where only the sync of a folder makes names durable
	changes []biteChange
}

// biteChange takes a text out of a file. It occurs there exactly once.
type biteChange struct{ file, find, put string }

var bites = []bite{
	{name: "no fdatasync", changes: []biteChange{
		{"segment/disk/uring/run.go", "entry.PrepOperation(iouring.IORING_OP_FSYNC, fd, 0, 0, 0)\n\t\tentry.SetOpFlags(iouring.IORING_FSYNC_DATASYNC)", "entry.PrepOperation(iouring.IORING_OP_NOP, fd, 0, 0, 0)"},
		{"segment/disk/posix/execute.go", "err = syncData(file)", "err = nil"},
	}},
	{name: "no fdatasync of segments", changes: []biteChange{
		{"segment/writer.go", "\tif w.sync {\n\t\tw.add(core.DiskOp{Kind: core.DiskSync, File: g.file})\n\t}\n\ts.submitChain(w)", "\ts.submitChain(w)"},
	}},
	{name: "no sync of a new segment's folder", strict: true, changes: []biteChange{
		{"segment/writer.go", "w.add(core.DiskOp{Kind: core.DiskSyncDir, Path: w.log.id.dir()})", ""},
	}},
	{name: "no sync of any folder", strict: true, changes: []biteChange{
		{"segment/disk/posix/folder.go", "err = folder.Sync()", ""},
	}},
}

var biteScenario = scenario{name: "bite", what: "the loss of power finds what a broker loses that does not sync", lack: lackBite, play: playBite}

// lackBite says why such brokers cannot be built and tried here.
func lackBite(s *stage) error {
	if _, err := sourceRoot(); err != nil {
		return fmt.Errorf("building a broker that does not sync needs the go command and the source: %w", err)
	}
	return lackForgetful(s)
}

// sourceRoot is the folder of the broker's module, when this runs inside of it.
func sourceRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pulsemq/pulsemq").Output()
	return strings.TrimSpace(string(out)), err
}

func playBite(ctx context.Context, s *stage) error {
	root, err := sourceRoot()
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
	switch err = bitten.run(ctx); {
	case err == nil:
		return fmt.Errorf("it lost nothing in %d rounds", biteRounds)
	case ctx.Err() != nil:
		return ctx.Err()
	case !lost.MatchString(err.Error()):
		return fmt.Errorf("it failed, and not for what it lost: %w", err)
	}
	first, more, _ := strings.Cut(err.Error(), "\n")
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

// overlay writes the changed files and what lays them over the source, and returns the latter's name.
func (b *bite) overlay(root, folder string) (string, error) {
	replace := map[string]string{}
	for i, c := range b.changes {
		name := filepath.Join(root, c.file)
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), c.find); n != 1 {
			return "", fmt.Errorf("%s holds %d times what is to be taken out, and it has to be once: %s", c.file, n, c.find)
		}
		changed := filepath.Join(folder, fmt.Sprintf("changed-%d.go", i))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), c.find, c.put, 1)), 0o600); err != nil {
			return "", err
		}
		replace[name] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

func (b *bite) build(ctx context.Context, root, folder string) (program string, err error) {
	overlay, err := b.overlay(root, folder)
	if err != nil {
		return "", err
	}
	program = filepath.Join(folder, "pulsemq")
	command := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program, "./cmd/pulsemq")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("go build: %w", err), errors.New(string(out)))
	}
	return program, nil
}
