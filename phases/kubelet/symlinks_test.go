package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// In a pod an absolute link of the machine leads elsewhere: no step changes files there, nor waits for a lock on them.
func TestNode_Astray(t *testing.T) {
	for dir, want := range map[string]string{
		"/var/lib/kubelet":    "/var/lib/kubelet",
		"/etc/kubernetes":     "/etc/kubernetes",
		"/etc/systemd/system": "/etc/systemd/system, /etc/systemd/system/kubelet.service.d",
	} {
		t.Run(dir, func(t *testing.T) {
			m, runner := phasestest.KubeletOf(t)
			machinetest.Put(t, m, filepath.Dir(machine.KubeletDropIn)+"/10-kubeadm.conf", "")
			if err := os.MkdirAll(m.Path("/data"), 0o755); err != nil {
				t.Fatal(err)
			}
			moved := filepath.Join("/data", filepath.Base(dir))
			if err := os.Rename(m.Path(dir), m.Path(moved)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(moved, m.Path(dir)); err != nil {
				t.Fatal(err)
			}
			before := phasestest.KubeletFilesOf(t, m)
			for _, plain := range []bool{false, true} {
				out, err := runNode(t, m, plain, machinetest.Address)
				var known *finding.Error
				if !errors.As(err, &known) || known.Code != finding.ExitRefused ||
					!strings.HasSuffix(err.Error(), "absolute links here lead elsewhere in a pod: "+want) ||
					!strings.Contains(known.Hint, "--via ssh") {
					t.Errorf("%v\n%s", err, out)
				}
			}
			if after := phasestest.KubeletFilesOf(t, m); after != before || phasestest.Restarts(runner) != 0 {
				t.Errorf("%d restarts, files:\n%s", phasestest.Restarts(runner), after)
			}
		})
	}
}
