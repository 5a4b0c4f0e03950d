// Package chart draws what runs have found as SVG: lines over a rate, with latency on a logarithmic axis, and bars with
// their spread. A picture stands by itself: it needs no font, no script and no other file, and its colours suit a light
// and a dark page alike, by the reader's preference.
package chart
