// Command ccmadm bootstraps kubeadm clusters in external cloud mode.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

func main() {
	ctx, stop := untilTold()
	defer stop()
	discardLogs()
	streams := workflow.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, LookupEnv: os.LookupEnv}
	os.Exit(run(ctx, streams, os.Args)) // stop has nothing left to do
}

// discardLogs is for what libraries log; what matters of it is in our errors. controller-runtime's client complains, half a
// minute after the start, where nothing was set.
func discardLogs() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctrllog.SetLogger(logr.Discard())
}

// untilTold ends with a signal that asks for an end. A terminal that is lost is one, too, but under nohup.
func untilTold() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}
