package main

import "fmt"

// counted is "1 replica" or "3 replicas".
func counted[N ~int | ~int64 | ~uint16 | ~uint32 | ~uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
