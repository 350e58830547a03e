package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A step whose output nobody reads any more, since the SSH connection is lost, comes to its end.
func TestNodeStep_OutlivesItsReader(t *testing.T) {
	const variable = "CCMADM_TEST_STEP_WRITES"
	if path := os.Getenv(variable); path != "" { // the process below
		root := "/"
		cmd := nodeStep(workflow.Streams{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, &root, &kubelet.NodeOptions{},
			func(_ context.Context, env *workflow.Env, _ kubelet.NodeOptions) error {
				env.Sayf("the kubelet does not come back")
				fmt.Fprintln(os.Stderr, "nor does anybody read this")
				return os.WriteFile(path, nil, 0o600)
			})
		cmd.SetArgs(nil)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "done")
	step := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.run=^"+t.Name()+"$")
	step.Env = append(os.Environ(), variable+"="+path, "CCMADM_TEST=") // it ends without stopping a control plane
	step.Stdout, step.Stderr = writer, writer
	if err := step.Run(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// A terminal that is lost ends a command as Ctrl-C does: what is begun is undone. Below nohup, which ignores the signal,
// the command goes on.
func TestUntilTold_TerminalIsLost(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		ctx, stop := untilTold()
		defer stop()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			t.Error("below nohup it ends")
		case <-time.After(200 * time.Millisecond): // the signal would have arrived
		}
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // from here on as without nohup
	}
	ctx, stop := untilTold()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}
