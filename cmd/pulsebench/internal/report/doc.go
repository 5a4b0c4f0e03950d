// Package report says what a run has found, to people and to scripts, together with everything that has to be known to
// judge its figures or to repeat it.
package report
