package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ccmadm/ccmadm/phases"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ccmadm": func() {
		streams := phases.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
		os.Exit(run(context.Background(), streams, append([]string{"ccmadm"}, os.Args[1:]...)))
	}})
}

// TestScripts runs the command line as a user would, one script per behaviour: testdata/*.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: *update})
}
