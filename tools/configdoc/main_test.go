package main

import (
	"os"
	"testing"
)

func TestDocumentIsWhatTheDeclarationsSay(t *testing.T) {
	got, err := os.ReadFile("../../docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != render() {
		t.Error("docs/CONFIG.md differs from the declarations: run make generate")
	}
}
