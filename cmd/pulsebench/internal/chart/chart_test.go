package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// wellFormed reads a picture as a viewer does, and returns its texts.
func wellFormed(t *testing.T, picture []byte) []string {
	t.Helper()
	var texts []string
	inside := false
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inside = e.Name.Local == "text"
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s> has %s=%s", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if inside {
				texts = append(texts, string(e))
			}
		case xml.EndElement:
			inside = false
		}
	}
	return texts
}

func has(texts []string, want string) bool {
	for _, text := range texts {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}

func TestCurveIsAPicture(t *testing.T) {
	for name, curve := range map[string]Curve{
		"nothing":  {},
		"one":      {Points: []Point{{Rate: 5, Latency: [3]float64{1, 1, 1}}}, Knee: 5},
		"extremes": {Points: []Point{{Rate: 0, Latency: [3]float64{0, 0, 1e-9}}, {Rate: 1e9, Latency: [3]float64{1, 1e5, 1e12}}}, Bound: 20},
		"usual":    {Title: "a <b> & \"c\"", Knee: 40_000, Bound: 20, Points: []Point{{10_000, [3]float64{0.5, 2, 4}}, {20_000, [3]float64{0.6, 3, 5}}, {40_000, [3]float64{1, 18, 30}}}},
	} {
		var b bytes.Buffer
		if err := WriteCurve(&b, curve); err != nil {
			t.Fatal(err)
		}
		texts := wellFormed(t, b.Bytes())
		for _, want := range []string{"p50", "p99", "p99.9", "latency in ms", "records/s"} {
			if !has(texts, want) {
				t.Errorf("%s: no %q among %q", name, want, texts)
			}
		}
		if name == "usual" && (!has(texts, `a <b> & "c"`) || !has(texts, "knee, 40k") || !has(texts, "20 ms") || !has(texts, "100")) {
			t.Errorf("the texts are %q", texts)
		}
	}
}

func TestBarsAreAPicture(t *testing.T) {
	for _, bars := range []Bars{{}, {Title: "shares", Unit: "x", Bars: []Bar{{"a<b", 0.5, 0.4, 0.6, 0.7}, {"zero", 0, 0, 0, 0}}}} {
		var b bytes.Buffer
		if err := WriteBars(&b, bars); err != nil {
			t.Fatal(err)
		}
		if texts := wellFormed(t, b.Bytes()); len(bars.Bars) > 0 && (!has(texts, "a<b") || !has(texts, "0.50")) {
			t.Errorf("the texts are %q", texts)
		}
	}
}

func TestTicksAreRoundAndReachTheEnd(t *testing.T) {
	for _, most := range []float64{0, 0.3, 1, 7, 8, 9, 99, 100, 1234, 3.3e6} {
		values := ticks(most, 8)
		last := values[len(values)-1]
		if values[0] != 0 || last < most || len(values) > 10 || len(values) < 3 && most > 0 {
			t.Errorf("up to %v: %v", most, values)
		}
		step := values[1] / math.Pow(10, math.Floor(math.Log10(values[1])))
		if !strings.Contains(" 1 2 2.5 5 ", " "+short(step)+" ") {
			t.Errorf("up to %v the steps are %v", most, values[1])
		}
	}
}
