package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// style is the look of every picture. The second half is for readers who prefer dark pages.
const style = `<style>
.page{fill:#ffffff}.ink{fill:#1f2328}.soft{fill:#59636e}.grid{stroke:#d1d9e0;stroke-width:1}.axis{stroke:#59636e;stroke-width:1.2}
.s0{stroke:#0969da}.s1{stroke:#bc4c00}.s2{stroke:#8250df}.f0{fill:#0969da}.f1{fill:#bc4c00}.f2{fill:#8250df}.mark{stroke:#1a7f37}.markink{fill:#1a7f37}.spread{stroke:#1f2328;stroke-width:2}.bar{fill:#54aeff}.floor{stroke:#cf222e;stroke-width:2;stroke-dasharray:4 3}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}.dash{stroke-dasharray:6 4;stroke-width:1.6;fill:none}
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:13px}.title{font-size:16px;font-weight:600}.small{font-size:12px}
@media (prefers-color-scheme:dark){
.page{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#30363d}.axis{stroke:#9198a1}
.s0{stroke:#58a6ff}.s1{stroke:#f0883e}.s2{stroke:#bc8cff}.f0{fill:#58a6ff}.f1{fill:#f0883e}.f2{fill:#bc8cff}.mark{stroke:#3fb950}.markink{fill:#3fb950}.spread{stroke:#e6edf3}.bar{fill:#1f6feb}.floor{stroke:#ff7b72}}
</style>`

// canvas gathers the elements of a picture.
type canvas struct {
	b             strings.Builder
	width, height float64
}

func newCanvas(width, height float64, title string) *canvas {
	c := &canvas{width: width, height: height}
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">`+"\n",
		num(width), num(height), num(width), num(height), escape(title))
	fmt.Fprintf(&c.b, "<title>%s</title>\n%s\n", escape(title), style)
	fmt.Fprintf(&c.b, `<rect class="page" width="%s" height="%s"/>`+"\n", num(width), num(height))
	return c
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

func (c *canvas) rect(class string, x, y, width, height float64) {
	fmt.Fprintf(&c.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`+"\n", class, num(x), num(y), num(width), num(height))
}

func (c *canvas) dot(class string, x, y float64) {
	fmt.Fprintf(&c.b, `<circle class="%s" cx="%s" cy="%s" r="3.4"/>`+"\n", class, num(x), num(y))
}

func (c *canvas) path(class string, points [][2]float64) {
	var d strings.Builder
	for i, p := range points {
		command := " L"
		if i == 0 {
			command = "M"
		}
		d.WriteString(command + num(p[0]) + " " + num(p[1]))
	}
	fmt.Fprintf(&c.b, `<path class="%s" d="%s"/>`+"\n", class, d.String())
}

// text writes a line of text; anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(&c.b, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`+"\n", class, anchor, num(x), num(y), escape(text))
}

// textUp writes one that is read from bottom to top.
func (c *canvas) textUp(class string, x, y float64, text string) {
	fmt.Fprintf(&c.b, `<text class="%s" text-anchor="middle" transform="translate(%s %s) rotate(-90)">%s</text>`+"\n", class, num(x), num(y), escape(text))
}

func (c *canvas) end() string { return c.b.String() + "</svg>\n" }

// num writes a coordinate.
func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// short writes a number with k or M behind it.
func short(v float64) string {
	switch {
	case math.Abs(v) >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case math.Abs(v) >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// ticks are round values from 0 up to at least most, about as many as asked for.
func ticks(most float64, about int) []float64 {
	if most <= 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most/float64(about))))
	for _, times := range []float64{1, 2, 2.5, 5, 10} {
		if most/(step*times) <= float64(about) {
			step *= times
			break
		}
	}
	var values []float64
	for i := 0; ; i++ {
		v := float64(i) * step
		values = append(values, v)
		if v >= most {
			return values
		}
	}
}
