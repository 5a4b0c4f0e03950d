package knee

import (
	"errors"
	"testing"
)

func TestFindsTheLastGoodRate(t *testing.T) {
	for _, limit := range []float64{37, 999, 1000, 1001, 64_000, 3_141_592} {
		tried := 0
		got, err := Search{From: 1000, Precision: 0.05, StepsMax: 40}.Find(func(rate float64) (bool, error) {
			tried++
			return rate <= limit, nil
		})
		if err != nil || got > limit || got < limit/1.05 {
			t.Errorf("the knee is at %v, found is %v, %v", limit, got, err)
		}
		if tried > 25 {
			t.Errorf("%d rates were tried for %v", tried, limit)
		}
	}
}

func TestSearchEnds(t *testing.T) {
	tried := 0
	got, err := Search{From: 1000, Precision: 0.05, StepsMax: 40}.Find(func(float64) (bool, error) { tried++; return false, nil })
	if got != 0 || err != nil || tried > 15 {
		t.Errorf("nothing is good: %v, %v after %d rates", got, err, tried)
	}
	tried = 0
	got, err = Search{From: 1000, Precision: 0.05, StepsMax: 7}.Find(func(float64) (bool, error) { tried++; return true, nil })
	if got != 64_000 || err != nil || tried != 7 {
		t.Errorf("everything is good: %v, %v after %d rates", got, err, tried)
	}
	broken := errors.New("broken")
	got, err = Search{From: 1000, Precision: 0.05, StepsMax: 7}.Find(func(rate float64) (bool, error) {
		if rate > 1000 {
			return false, broken
		}
		return true, nil
	})
	if got != 1000 || !errors.Is(err, broken) {
		t.Errorf("a failure: %v, %v", got, err)
	}
	if _, err := (Search{}).Find(nil); err == nil {
		t.Error("a search without a beginning is none")
	}
}

func TestShorterTriesAreConfirmed(t *testing.T) {
	var tried []float64
	try := func(rate float64) (bool, error) { tried = append(tried, rate); return rate <= 900, nil }
	if got, err := Confirm(1000, 0.1, 5, try); err != nil || got > 900 || got < 900/1.1 || len(tried) != 3 {
		t.Errorf("confirmed is %v of %v, %v", got, tried, err)
	}
	if got, err := Confirm(100_000, 0.1, 5, try); err != nil || got != 0 {
		t.Errorf("nothing is good, and confirmed is %v, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := Confirm(1000, 0.1, 5, func(float64) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("a failure: %v", err)
	}
	if _, err := Confirm(0, 0.1, 5, nil); err == nil {
		t.Error("there is nothing to confirm")
	}
}
