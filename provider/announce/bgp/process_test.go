//go:build linux

package bgp

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

// order is what a speaker in a process of its own is told on its input, a line of JSON each.
type order struct {
	Addresses []netip.Addr
	Routers   []Router
	Paths     []Path
	Drain     bool
	Serve     string // an address at which to answer, as kube-proxy's rules would, in place of speaking
}

// TestSpeakerProcess is no test, but a speaker that can be killed, for those that start it with an order.
func TestSpeakerProcess(t *testing.T) {
	first := os.Getenv(speakerVariable)
	if first == "" {
		return
	}
	var o order
	noError(t, json.Unmarshal([]byte(first), &o))
	if o.Serve != "" {
		serveAt(t, o.Serve)
		return
	}
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)) // shown when the test fails
	s, err := NewSpeaker(t.Context(), log, o.Addresses, func() {})
	noError(t, err)
	noError(t, s.SetPaths(o.Paths))
	s.SetRouters(t.Context(), o.Routers)
	for decoder := json.NewDecoder(os.Stdin); decoder.Decode(&o) == nil; {
		if o.Drain {
			noError(t, s.Drain(t.Context()))
		}
	}
	noError(t, s.Close(t.Context()))
}

// speakerProcess starts a speaker that can be killed: in the namespace of the test, or in a new one, or in that of a
// process by way of a program.
func speakerProcess(t *testing.T, o order, flags uintptr, by ...string) (*exec.Cmd, io.WriteCloser) {
	t.Helper()
	content, err := json.Marshal(o)
	noError(t, err)
	args := append(by, os.Args[0], "-test.run=^TestSpeakerProcess$")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), speakerVariable+"="+string(content), insideVariable+"=")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: flags}
	in, err := cmd.StdinPipe()
	noError(t, err)
	start(t, cmd)
	return cmd, in
}

// start starts a process that ends with the test, or with the test's process.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	noError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if out.Len() > 0 && t.Failed() {
			t.Logf("%s: %s", filepath.Base(cmd.Path), out.String())
		}
	})
}
