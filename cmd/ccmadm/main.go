// Command ccmadm bootstraps kubeadm clusters in external cloud mode.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ccmadm/ccmadm/phases"
)

// version is set by the linker to what `git describe` says.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	streams := phases.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
	os.Exit(run(ctx, streams, os.Args)) //nolint:gocritic // stop has nothing left to do
}
