package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a count of bytes that an operator chose.
//
// 1KB, 1KiB and 1K are all 1024 bytes, and so on upwards: what is sized here are
// files, extents and buffers, which are powers of two, and a configuration in
// which 1GB and 1GiB differ by seven percent helps nobody. String writes KiB,
// MiB, GiB and TiB, so what the broker prints cannot be misread.
type Size int64

const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40

	// SizeUnlimited is larger than anything that is compared with it. It is spelled
	// out as "unlimited"; zero never means it.
	SizeUnlimited Size = math.MaxInt64
)

// sizeUnits are the accepted units in lower case.
var sizeUnits = map[string]Size{
	"": 1, "b": 1,
	"k": KiB, "kb": KiB, "kib": KiB,
	"m": MiB, "mb": MiB, "mib": MiB,
	"g": GiB, "gb": GiB, "gib": GiB,
	"t": TiB, "tb": TiB, "tib": TiB,
}

// ParseSize reads a whole number with an optional unit: 4096, 64KB, 1GiB.
func ParseSize(text string) (Size, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(text[digits:]))]
	if digits == 0 || !known {
		return 0, fmt.Errorf("not a size: wants a whole number with a unit, such as 64KB, 16MB or 1GB")
	}
	number, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil || number > int64(SizeUnlimited-1)/int64(unit) {
		return 0, fmt.Errorf("not a size: more bytes than can be counted")
	}
	return Size(number) * unit, nil
}

// String writes the size in the largest unit that divides it, so that ParseSize
// reads the same size back.
func (s Size) String() string {
	if s == SizeUnlimited {
		return "unlimited"
	}
	for _, unit := range [...]struct {
		bytes Size
		name  string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s != 0 && s%unit.bytes == 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
