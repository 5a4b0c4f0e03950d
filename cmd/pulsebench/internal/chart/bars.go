package chart

import (
	"io"
	"strconv"
)

// Bar is one figure with its spread.
type Bar struct {
	Name             string
	Value, Low, High float64
	Floor            float64 // 0 for none
}

// Bars are figures of one unit below each other.
type Bars struct {
	Title string
	Unit  string
	Bars  []Bar
}

// Where things lie on the picture.
const (
	barsWidth           = 860
	barsLeft, barsRight = 170, 80
	barsTop, barsBottom = 48, 48
	barStep, barHeight  = 34, 20
)

// WriteBars draws them.
func WriteBars(w io.Writer, bars Bars) error {
	bottom := float64(barsTop + barStep*max(len(bars.Bars), 1))
	c := newCanvas(barsWidth, bottom+barsBottom, bars.Title)
	c.text("ink title", "start", 20, 28, bars.Title)
	most := 0.0
	for _, b := range bars.Bars {
		most = max(most, b.High, b.Value, b.Floor)
	}
	marks := ticks(most, 8)
	right := float64(barsWidth - barsRight)
	x := func(v float64) float64 { return barsLeft + (right-barsLeft)*v/marks[len(marks)-1] }
	for _, v := range marks {
		c.line("grid", x(v), barsTop, x(v), bottom)
		c.text("soft small", "middle", x(v), bottom+18, short(v))
	}
	c.line("axis", barsLeft, barsTop, barsLeft, bottom)
	c.text("ink", "middle", (barsLeft+right)/2, bottom+38, bars.Unit+" (bar: median; line: spread; dashes: floor)")
	for i, b := range bars.Bars {
		top := float64(barsTop + barStep*i + (barStep-barHeight)/2)
		middle := top + barHeight/2
		c.text("ink", "end", barsLeft-10, middle+textUp, b.Name)
		c.rect("bar", barsLeft, top, x(b.Value)-barsLeft, barHeight)
		c.line("spread", x(b.Low), middle, x(b.High), middle)
		for _, end := range []float64{b.Low, b.High} {
			c.line("spread", x(end), middle-4, x(end), middle+4)
		}
		if b.Floor > 0 {
			c.line("floor", x(b.Floor), top-4, x(b.Floor), top+barHeight+4)
		}
		c.text("ink small", "start", max(x(b.High), x(b.Value), x(b.Floor))+8, middle+textUp, strconv.FormatFloat(b.Value, 'f', 2, 64))
	}
	_, err := io.WriteString(w, c.end())
	return err
}
