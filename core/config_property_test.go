package core

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawValue draws any value of a domain, spelled as the broker prints it.
func drawValue(t *rapid.T, name string, d Domain) string {
	var words []string
	if d.Auto {
		words = append(words, wordAuto)
	}
	if d.Unlimited {
		words = append(words, wordUnlimited)
	}
	if len(words) > 0 && rapid.IntRange(0, 3).Draw(t, name+" is a word") == 0 {
		return rapid.SampledFrom(words).Draw(t, name)
	}
	switch d.Kind {
	case KindBool:
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, name)
	case KindChoice:
		return rapid.SampledFrom(d.Choices).Draw(t, name)
	case KindBackoff:
		step := rapid.Custom(func(t *rapid.T) string {
			return FormatDuration(time.Duration(rapid.Int64Range(d.Min, d.Max).Draw(t, "step")))
		})
		return strings.Join(rapid.SliceOfN(step, 1, BackoffStepsMax).Draw(t, name), ",")
	case KindText:
		if d.Noun == deadLetterDomain.Noun {
			return rapid.SampledFrom([]string{"", "orders.dead"}).Draw(t, name)
		}
		return rapid.SampledFrom([]string{"localhost", "::1", "0.0.0.0", "10.1.2.3"}).Draw(t, name)
	}
	return d.format(value{number: rapid.Int64Range(d.Min, d.Max).Draw(t, name)})
}

// What is printed reads back as the same configuration, and no value of a key's
// own domain is ever refused: only relations between keys are.
func TestPrintedConfigurationReadsBack(t *testing.T) {
	related := make(map[string]bool)
	for _, r := range relations {
		related[r.Key] = true
		for _, name := range r.With {
			related[name] = true
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var settings []Setting
		for _, key := range keys {
			if rapid.Bool().Draw(t, key.Name+" is set") {
				settings = append(settings, Setting{Key: key.Name, Value: drawValue(t, key.Name, key.Domain), Source: "drawn"})
			}
		}
		config, faults := ParseConfig(settings, testMachine)
		for _, f := range faults {
			if !related[f.Key] {
				t.Fatalf("a value of its domain is refused: %v", f)
			}
		}
		if faults != nil {
			// Without the keys that have relations, everything else still holds.
			settings = slices.DeleteFunc(settings, func(s Setting) bool { return related[s.Key] })
			if config, faults = ParseConfig(settings, testMachine); faults != nil {
				t.Fatalf("refused: %v", faults)
			}
		}
		if faults := config.Validate(); faults != nil {
			t.Fatalf("parsed without faults, then: %v", faults)
		}
		settings = nil
		for _, v := range config.List(nil) {
			settings = append(settings, Setting{Key: v.Name, Value: v.Value})
		}
		again, faults := ParseConfig(settings, testMachine)
		if faults != nil || again != config {
			t.Fatalf("%+v reads back as %+v, %v", config, again, faults)
		}
	})
}

func TestTopicConfigurationReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := make(map[string]string)
		for _, key := range topicKeys {
			if rapid.Bool().Draw(t, key.Name+" is set") {
				given[key.Name] = drawValue(t, key.Name, key.Domain)
			}
		}
		config, faults := ParseTopicConfig(given, topicDefaults())
		if faults != nil {
			delete(given, "segment.bytes")
			delete(given, "max.message.bytes")
			if config, faults = ParseTopicConfig(given, topicDefaults()); faults != nil {
				t.Fatalf("refused: %v", faults)
			}
		}
		listed := make(map[string]string)
		for _, setting := range config.List(given) {
			listed[setting.Name] = setting.Value
		}
		if again, faults := ParseTopicConfig(listed, topicDefaults()); faults != nil || again != config {
			t.Fatalf("%+v reads back as %+v, %v", config, again, faults)
		}
	})
}

func TestSizesAndDurationsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Size(rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "size"))
		if again, err := ParseSize(size.String()); err != nil || again != size {
			t.Fatalf("%d is written %s and read %d, %v", size, size, again, err)
		}
		duration := time.Duration(rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "duration"))
		if again, err := ParseDuration(FormatDuration(duration)); err != nil || again != duration {
			t.Fatalf("%d is written %s and read %d, %v", duration, FormatDuration(duration), again, err)
		}
	})
}
