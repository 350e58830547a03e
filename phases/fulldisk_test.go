package phases

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// filling is a disk that takes half of the n-th file and then no more. The kernel says so, by a limit on the size of
// files that holds for that one write.
type filling struct {
	machine.Files

	t     *testing.T
	m     *machine.Machine
	at, n int
	path  string // of the file that did not fit
}

func (f *filling) Write(file machine.File) (bool, error) {
	if f.n++; f.n != f.at {
		return f.Files.Write(file)
	}
	f.path = file.Path
	before := phasestest.Snapshot(f.t, f.m)
	lift := limitFiles(f.t, uint64(len(file.Data)/2))
	changed, err := f.Files.Write(file)
	lift()
	after := phasestest.Snapshot(f.t, f.m)
	kept := filepath.Join(filepath.Dir(file.Path), "."+filepath.Base(file.Path)+".previous")
	if after[kept] == before[file.Path] { // it was to be the previous version, and is complete
		delete(after, kept)
		delete(before, kept)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		f.t.Errorf("after half of %s was written (-before +after):\n%s", file.Path, diff)
	}
	return changed, err
}

// limited is set in the environment of the process whose files are.
const limited = "CCMADM_TEST_LIMITED"

// limitFiles keeps this process from writing files larger than that, until the function that it returns is called.
func limitFiles(t *testing.T, size uint64) func() {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(current uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: current, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	signal.Ignore(syscall.SIGXFSZ) // else the write ends the process
	set(size)
	return func() {
		set(limit.Cur)
		signal.Reset(syscall.SIGXFSZ)
	}
}

// Whichever write meets a full disk: the error names the file, nothing of it remains, and the same command goes on from
// there once there is space. The limit is for a whole process, so it is one of its own: the go command's has a log.
func TestFullDisk(t *testing.T) {
	if os.Getenv(limited) == "" {
		// -short: without a cluster.
		own := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v", "-test.short")
		own.Env = append(os.Environ(), limited+"=yes", "CCMADM_TEST=")
		out, err := own.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	for _, tt := range []struct {
		name   string
		run    phasestest.Run
		given  map[string]string
		phases func() []workflow.Phase
		atMost int // as many writes there are
	}{
		{
			name: "init", run: phasestest.Run{Config: phasestest.InitConfig}, atMost: 30,
			phases: func() []workflow.Phase {
				return []workflow.Phase{bootstrap.KubeadmConfig(), bootstrap.KubeadmControlPlane(), manager.Kubeconfig(), manager.ControlPlane(), bootstrap.KubeadmFinish()}
			},
		},
		{
			name: "a second init, with other files", run: phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Force: true}}, atMost: 30,
			given: map[string]string{machine.KubeadmConfig: "old", machine.CCMManifest: "old", machine.CCMKubeconfig: "old"},
			phases: func() []workflow.Phase {
				return []workflow.Phase{bootstrap.KubeadmConfig(), bootstrap.KubeadmControlPlane(), manager.Kubeconfig(), manager.ControlPlane(), bootstrap.KubeadmFinish()}
			},
		},
		{
			name:   "the kubelet's part of join",
			run:    phasestest.Run{Inputs: workflow.Inputs{Role: kubeadm.RoleJoin, Request: workflow.Request{InstallUnit: true}}},
			atMost: 10,
			phases: func() []workflow.Phase { return []workflow.Phase{kubelet.Phase()} },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed := 0
			for at := 1; at <= tt.atMost; at++ {
				m, _ := machinetest.New(t)
				machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
				for path, text := range tt.given {
					machinetest.Put(t, m, path, text)
				}
				disk := &filling{Files: m.Files, t: t, m: m, at: at}
				m.Files = disk
				err := doAll(t, tt.run, m, tt.phases())
				if disk.path == "" {
					break // every write has failed once
				}
				failed++
				if err == nil || !strings.Contains(err.Error(), filepath.Base(disk.path)) ||
					!strings.Contains(err.Error(), "file too large") {
					t.Errorf("write %d: got %v, want an error that names %s", at, err, disk.path)
				}
				if err := doAll(t, tt.run, m, tt.phases()); err != nil {
					t.Errorf("write %d, %s, with space again: %v", at, disk.path, err)
				}
			}
			t.Logf("%d writes, each to a full disk", failed)
			if failed < 2 || failed == tt.atMost {
				t.Errorf("%d writes met a full disk", failed)
			}
		})
	}
}

func doAll(t *testing.T, r phasestest.Run, m *machine.Machine, phases []workflow.Phase) error {
	t.Helper()
	for _, p := range phases {
		if _, err := r.Do(t, m, p); err != nil {
			return err
		}
	}
	return nil
}
