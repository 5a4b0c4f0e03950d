// Package house holds the rules of the repository as a whole, each as a test:
// which folder may import what, that documents and tree agree, that links lead
// somewhere, that every configuration key is used.
package house
