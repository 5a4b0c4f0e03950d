// Mutants shows that the tests hold the rules: it takes one rule at a time out of
// the source and requires the test that is said to hold it to fail.
//
//	go run ./tools/mutants -list            each rule, where it stands, and the tests that hold it
//	go run ./tools/mutants -run generation  the mutants whose name matches
//	make mutants                            all of them
//
// A mutant is a piece of source text, the text that takes the rule out, and the
// tests that must then fail. The source is never touched: the changed file is laid
// over it with the go command's -overlay flag. Mutants of functions share one build of
// each package's tests, in which the environment chooses one: see combined.go.
//
// So that the table cannot rot, a test in this folder checks that every text occurs
// exactly once in its file, that the mutated package still compiles, and that the
// tests exist. The run itself requires the tests to pass without the mutant and each
// of them to fail with it, by a failed check and not by the end of its time, unless
// the mutant says that it hangs.
//
// The tables lie in the files named for what the rules are about: journal.go,
// recovery.go and so on. A mutant that survives says that a test is missing.
package main
