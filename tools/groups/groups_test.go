package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"
)

// The measurements run in a short form, with bounds that say that it works at all.
func TestMeasurements(t *testing.T) {
	err := build(func(program string) error {
		measureAll(t, program)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func measureAll(t *testing.T, program string) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"rebalance", "-members", "8", "-partitions", "40", "-rounds", "1", "-every", "50ms", "-quiet", "200ms", "-settle-max", "20s", "-pause-max", "20s"},
			`8 members join at once, 40 partitions: settled in (?s:.*)one joins .* stay: +3[56], .* move: +[45],(?s:.*)one leaves .* stay: +3[56], .* move: +[45],`},
		{[]string{"lives", "-groups", "300", "-warm", "50"}, `before: .* 0 groups\n300 groups have lived .* 300 groups\nall are gone .* 0 groups\n`},
		{[]string{"scrape", "-partitions", "50", "-groups", "20", "-each", "10", "-pages", "2", "-time-max", "20s"}, `a page of .* 20 of lag, which is 200 records together`},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		var out bytes.Buffer
		err := run(ctx, &out, program, c.args)
		cancel()
		if err != nil || !regexp.MustCompile(c.want).Match(out.Bytes()) {
			t.Errorf("groups %q (%v):\n%s", c.args, err, out.String())
		}
	}
	if err := run(context.Background(), new(bytes.Buffer), program, []string{"nothing"}); err == nil {
		t.Error("a command that there is not is run")
	}
}
