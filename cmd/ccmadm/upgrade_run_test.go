package main

import (
	"os"
	"os/exec"
	"testing"
)

// A program goes on whose words nobody reads any more.
func TestUnheard(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = write.Close() })
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	program := exec.Command("sh", "-c", "for i in 1 2 3; do env echo $i || exit 1; sleep 0.1; done")
	program.Stdout = unheard{write}
	if err := program.Run(); err != nil {
		t.Errorf("it ended with its reader: %v", err)
	}
}
