package chart

import (
	"fmt"
	"io"
	"math"
)

// Point is one rate that was tried.
type Point struct {
	Rate    float64    // records per second that went through
	Latency [3]float64 // p50, p99 and p99.9, in milliseconds
}

// Curve is throughput against latency.
type Curve struct {
	Title  string
	Points []Point // by their rate
	Knee   float64 // the highest rate that is good; 0 for none
	Bound  float64 // milliseconds that p99 has to stay below; 0 for none
}

// Where things lie on the picture.
const (
	curveWidth, curveHeight        = 860, 480
	curveLeft, curveRight          = 76, 24
	curveTop, curveBottom          = 64, 60
	latencyLowest, latencyHighest  = 0.01, 1e6 // bounds of the axis
	legendStep, legendLine, textUp = 88, 22, 4
)

var curveNames = [3]string{"p50", "p99", "p99.9"}

// WriteCurve draws it.
func WriteCurve(w io.Writer, curve Curve) error {
	c := newCanvas(curveWidth, curveHeight, curve.Title)
	c.text("ink title", "start", curveLeft, 28, curve.Title)
	most, low, high := 0.0, latencyHighest, latencyLowest
	for _, p := range curve.Points {
		most = max(most, p.Rate)
		for _, l := range p.Latency {
			if l > 0 {
				low, high = min(low, l), max(high, l)
			}
		}
	}
	if curve.Bound > 0 {
		low, high = min(low, curve.Bound), max(high, curve.Bound)
	}
	rates := ticks(most, 8)
	from := math.Floor(math.Log10(max(low, latencyLowest)))
	to := max(math.Ceil(math.Log10(min(high, latencyHighest))), from+1)
	right, bottom := float64(curveWidth-curveRight), float64(curveHeight-curveBottom)
	x := func(rate float64) float64 { return curveLeft + (right-curveLeft)*rate/rates[len(rates)-1] }
	y := func(ms float64) float64 {
		log := min(max(math.Log10(max(ms, latencyLowest)), from), to)
		return bottom - (bottom-curveTop)*(log-from)/(to-from)
	}
	for decade := from; decade <= to; decade++ {
		value := math.Pow(10, decade)
		c.line("grid", curveLeft, y(value), right, y(value))
		c.text("soft small", "end", curveLeft-8, y(value)+textUp, short(value))
	}
	for _, rate := range rates {
		c.line("grid", x(rate), curveTop, x(rate), bottom)
		c.text("soft small", "middle", x(rate), bottom+18, short(rate))
	}
	c.line("axis", curveLeft, bottom, right, bottom)
	c.line("axis", curveLeft, curveTop, curveLeft, bottom)
	c.text("ink", "middle", (curveLeft+right)/2, curveHeight-14, "records/s that went through")
	c.textUp("ink", 22, (curveTop+bottom)/2, "latency in ms, from when a batch was due")
	if curve.Bound > 0 {
		c.line("dash mark", curveLeft, y(curve.Bound), right, y(curve.Bound))
		c.text("markink small", "start", curveLeft+6, y(curve.Bound)-6, fmt.Sprintf("p99 bound, %s ms", short(curve.Bound)))
	}
	if curve.Knee > 0 {
		c.line("dash mark", x(curve.Knee), curveTop, x(curve.Knee), bottom)
		anchor, at := "end", x(curve.Knee)-6
		if at < curveLeft+150 {
			anchor, at = "start", x(curve.Knee)+6
		}
		c.text("markink small", anchor, at, curveTop+14, "knee, "+short(curve.Knee)+" records/s")
	}
	for i, name := range curveNames {
		var points [][2]float64
		for _, p := range curve.Points {
			points = append(points, [2]float64{x(p.Rate), y(p.Latency[i])})
		}
		if len(points) > 1 {
			c.path(fmt.Sprintf("line s%d", i), points)
		}
		for _, p := range points {
			c.dot(fmt.Sprintf("f%d", i), p[0], p[1])
		}
		at := right - legendStep*float64(len(curveNames)-i)
		c.line(fmt.Sprintf("line s%d", i), at, 46, at+legendLine, 46)
		c.dot(fmt.Sprintf("f%d", i), at+legendLine/2, 46)
		c.text("ink small", "start", at+legendLine+6, 50, name)
	}
	_, err := io.WriteString(w, c.end())
	return err
}
