// Command ccmadm bootstraps kubeadm clusters in external cloud mode.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/phases"
)

// version is set by the linker to what `git describe` says.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard) // client-go's own words; what matters of them is in our errors
	streams := phases.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
	os.Exit(run(ctx, streams, os.Args)) // stop has nothing left to do
}
