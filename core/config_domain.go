package core

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind is what a key's value is.
type Kind uint8

const (
	KindBool     Kind = iota + 1 // true or false
	KindCount                    // a whole number
	KindSize                     // bytes: 64KB, 1GB
	KindDuration                 // 5ms, 1h, 7d
	KindBackoff                  // durations by attempt: 1s,10s,1m
	KindChoice                   // one of a few words
	KindText                     // a host name, a path
)

var kindNames = [...]string{KindBool: "bool", KindCount: "number", KindSize: "size",
	KindDuration: "duration", KindBackoff: "durations", KindChoice: "choice", KindText: "text"}

func (k Kind) String() string { return kindNames[k] }

// Domain is the set of values that a key takes. Broker keys and topic keys share it.
type Domain struct {
	Kind Kind

	// Min and Max bound a count, a size or a duration (nanoseconds), and each step of a
	// back-off; both are allowed.
	Min, Max int64

	// Auto allows "auto": the broker chooses when it starts. It is held as the zero
	// value until then, which is why Min is never 0 where Auto is set.
	Auto bool

	// Unlimited allows "unlimited", held as the largest number of the type.
	Unlimited bool

	// Millis lets a duration, or a step of a back-off, be a plain number of milliseconds, for keys whose name says so.
	Millis bool

	// Choices are the words of a choice; a choice is held as its place among them.
	Choices []string

	// Noun says what a text is, and Check is its rule: it returns what is wrong, or "".
	Noun  string
	Check func(text string) (problem string)
}

const (
	wordAuto      = "auto"
	wordUnlimited = "unlimited"
)

// CountUnlimited is larger than any count that is compared with it; see SizeUnlimited.
const CountUnlimited = math.MaxInt

// value is a parsed value before it is stored in its typed field.
type value struct {
	number  int64
	text    string
	backoff Backoff
}

// parse reads a value as an operator spelled it.
func (d Domain) parse(text string) (value, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == wordAuto && d.Auto:
		return value{}, nil
	case text == wordUnlimited && d.Unlimited:
		return value{number: math.MaxInt64}, nil
	}
	var v value
	var err error
	switch d.Kind {
	case KindBool:
		switch text {
		case "true":
			v.number = 1
		case "false":
		default:
			err = fmt.Errorf("allowed are %s", d.Allowed())
		}
	case KindCount:
		if v.number, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = fmt.Errorf("not a whole number; allowed is %s", d.Allowed())
		}
	case KindSize:
		var size Size
		if size, err = ParseSize(text); err != nil {
			err = fmt.Errorf("%w; allowed is %s", err, d.Allowed())
		}
		v.number = int64(size)
	case KindDuration:
		var duration time.Duration
		if duration, err = d.duration(text); err != nil {
			err = fmt.Errorf("%w; allowed is %s", err, d.Allowed())
		}
		v.number = int64(duration)
	case KindBackoff:
		if v.backoff, err = parseBackoff(text, d.duration); err != nil {
			err = fmt.Errorf("%w; allowed is %s", err, d.Allowed())
		}
	case KindChoice:
		v.number = -1
		for i, choice := range d.Choices {
			if text == choice {
				v.number = int64(i)
			}
		}
		if v.number < 0 {
			err = fmt.Errorf("allowed are %s", d.Allowed())
		}
	case KindText:
		v.text = text
	}
	if err != nil {
		return value{}, err
	}
	if problem := d.problem(v); problem != "" {
		return value{}, fmt.Errorf("%s", problem)
	}
	return v, nil
}

// duration reads a duration, which may be a plain number of milliseconds.
func (d Domain) duration(text string) (time.Duration, error) {
	if d.Millis && strings.Trim(text, "0123456789") == "" && text != "" {
		text += "ms"
	}
	return ParseDuration(text)
}

// problem says what keeps a value that is not auto out of the domain, or "".
func (d Domain) problem(v value) string {
	switch d.Kind {
	case KindCount, KindSize, KindDuration:
		if d.Unlimited && v.number == math.MaxInt64 {
			return ""
		}
		if v.number < d.Min || v.number > d.Max {
			return "allowed is " + d.Allowed()
		}
	case KindBackoff:
		for _, step := range v.backoff {
			if int64(step) < d.Min || int64(step) > d.Max {
				return "allowed is " + d.Allowed()
			}
		}
	case KindChoice:
		if v.number < 0 || v.number >= int64(len(d.Choices)) {
			return "allowed are " + d.Allowed()
		}
	case KindText:
		if d.Check != nil {
			return d.Check(v.text)
		}
	}
	return ""
}

// auto reports whether v stands for a choice not made yet.
func (d Domain) auto(v value) bool { return d.Auto && v == value{} }

// format writes a value so that parse reads it back.
func (d Domain) format(v value) string {
	if d.auto(v) {
		return wordAuto
	}
	switch d.Kind {
	case KindBool:
		return strconv.FormatBool(v.number != 0)
	case KindSize:
		return Size(v.number).String()
	case KindDuration:
		return FormatDuration(time.Duration(v.number))
	case KindBackoff:
		return v.backoff.String()
	case KindChoice:
		if v.number < 0 || v.number >= int64(len(d.Choices)) {
			return strconv.FormatInt(v.number, 10)
		}
		return d.Choices[v.number]
	case KindText:
		return v.text
	}
	if d.Unlimited && v.number == math.MaxInt64 {
		return wordUnlimited
	}
	return strconv.FormatInt(v.number, 10)
}

// Allowed describes the domain in words, for errors and for docs.
func (d Domain) Allowed() string {
	var words []string
	switch d.Kind {
	case KindBool:
		return "true and false"
	case KindChoice:
		return strings.Join(d.Choices[:len(d.Choices)-1], ", ") + " and " + d.Choices[len(d.Choices)-1]
	case KindText:
		words = append(words, "a "+d.Noun)
	case KindBackoff:
		words = append(words, fmt.Sprintf("1 to %d durations with commas between them, each %s to %s", BackoffStepsMax,
			FormatDuration(time.Duration(d.Min)), FormatDuration(time.Duration(d.Max))))
	default:
		words = append(words, d.format(value{number: d.Min})+" to "+d.format(value{number: d.Max}))
	}
	if d.Auto {
		words = append(words, wordAuto)
	}
	if d.Unlimited {
		words = append(words, wordUnlimited)
	}
	return strings.Join(words, ", or ")
}

// store puts a parsed value into the typed field that target points to.
func store(target any, v value) {
	switch p := target.(type) {
	case *bool:
		*p = v.number != 0
	case *int:
		*p = int(v.number)
	case *NodeID:
		*p = NodeID(v.number)
	case *Size:
		*p = Size(v.number)
	case *time.Duration:
		*p = time.Duration(v.number)
	case *string:
		*p = v.text
	case *Durability:
		*p = Durability(v.number)
	case *DiskChoice:
		*p = DiskChoice(v.number)
	case *CleanupPolicy:
		*p = CleanupPolicy(v.number)
	case *TimestampType:
		*p = TimestampType(v.number)
	case *QueueAttempts:
		*p = QueueAttempts(v.number)
	case *Backoff:
		*p = v.backoff
	case *slog.Level:
		*p = slog.Level(v.number*logLevelStep) + slog.LevelDebug
	default:
		panic(fmt.Sprintf("a key is bound to a field of type %T, which store does not know", target))
	}
}

// load is the opposite of store.
func load(target any) value {
	switch p := target.(type) {
	case *bool:
		if *p {
			return value{number: 1}
		}
		return value{}
	case *int:
		return value{number: int64(*p)}
	case *NodeID:
		return value{number: int64(*p)}
	case *Size:
		return value{number: int64(*p)}
	case *time.Duration:
		return value{number: int64(*p)}
	case *string:
		return value{text: *p}
	case *Durability:
		return value{number: int64(*p)}
	case *DiskChoice:
		return value{number: int64(*p)}
	case *CleanupPolicy:
		return value{number: int64(*p)}
	case *TimestampType:
		return value{number: int64(*p)}
	case *QueueAttempts:
		return value{number: int64(*p)}
	case *Backoff:
		return value{backoff: *p}
	case *slog.Level:
		return value{number: int64(*p-slog.LevelDebug) / logLevelStep}
	}
	panic(fmt.Sprintf("a key is bound to a field of type %T, which load does not know", target))
}

// logLevelStep is the distance between the levels of log/slog.
const logLevelStep = int64(slog.LevelInfo - slog.LevelDebug)
