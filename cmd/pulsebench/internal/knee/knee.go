// Package knee finds the highest rate that a broker bears: the last one before its latency, or what goes through, gives
// way.
package knee

import (
	"fmt"
	"math"
)

// Search says how to look for the knee.
type Search struct {
	From      float64 // the first rate
	Precision float64 // how much better a bad rate next to the knee may be: 0.05 is five in a hundred
	StepsMax  int     // rates that are tried at most
}

// Downward, a rate that is bad even at fromShareMin of the first ends the search.
const fromShareMin = 1.0 / 1024

// Find doubles the rate until one is bad, then halves the distance between the last good and the first bad one. It
// returns the highest rate that was good, or 0.
//
// A rate that is bad once is taken for bad: a broker that is not stopped by chance does better at the next, lower one,
// and the knee is what can be relied on.
func (s Search) Find(try func(rate float64) (good bool, err error)) (float64, error) {
	if s.From <= 0 || s.Precision <= 0 || s.StepsMax < 1 {
		return 0, fmt.Errorf("a search from %v to a precision of %v in %d steps: each is more than 0", s.From, s.Precision, s.StepsMax)
	}
	low, high := 0.0, math.Inf(1)
	rate := s.From
	for range s.StepsMax {
		good, err := try(rate)
		if err != nil {
			return low, err
		}
		if good {
			low = rate
		} else {
			high = rate
		}
		switch {
		case math.IsInf(high, 1):
			rate = low * 2
		case low == 0:
			if rate = high / 2; rate < s.From*fromShareMin {
				return 0, nil
			}
		case high/low <= 1+s.Precision:
			return low, nil
		default:
			rate = math.Sqrt(low * high)
		}
	}
	return low, nil
}

// Confirm goes down from a rate that shorter tries have found, by the same share each time, until one is good at full
// length. It returns that one, or 0 when none of so many is.
func Confirm(rate, share float64, triesMax int, try func(rate float64) (good bool, err error)) (float64, error) {
	if rate <= 0 || share <= 0 || triesMax < 1 {
		return 0, fmt.Errorf("%d tries from %v in steps of %v: each is more than 0", triesMax, rate, share)
	}
	for range triesMax {
		good, err := try(rate)
		if good || err != nil {
			return rate, err
		}
		rate /= 1 + share
	}
	return 0, nil
}
