package adoption

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

const lostRecord = "is in external mode, and the cluster has no record"

// adoptOnprem is the run of adopt of these tests.
func adoptOnprem() workflow.Inputs {
	return workflow.Inputs{
		Command: "adopt", Operation: &Adoption{Yes: true}, Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "onprem"}},
	}
}

// wantHint looks for a refusal, and for what it says to do.
func wantHint(t *testing.T, err error, text, hint string) {
	t.Helper()
	phasestest.WantError(t, err, text, finding.ExitRefused)
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(known.Hint, hint) {
		t.Errorf("%v has no hint %q", err, hint)
	}
}

// says answers a question, after something else has happened.
type says struct{ first func() }

func (s says) Read(p []byte) (int, error) {
	s.first()
	return copy(p, "y\n"), io.EOF
}

// atTheLease has something happen before the machine's next run asks for the journal's Lease.
func atTheLease(t *testing.T, m *machine.Machine, happens func()) {
	t.Helper()
	first := sync.OnceFunc(happens)
	proxy := phasestest.Proxied(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/kube-system/leases") {
			first()
		}
		return false
	})
	machinetest.Put(t, m, machine.AdminConf, phasestest.KubeconfigText(t, proxy))
}

// Before rollback holds the Lease, adopt may publish the record on another control plane: that cluster keeps its manager, and the
// journal has no run that failed, which would be in the way of init.
func TestCluster_Rollback_AdoptedMeanwhile(t *testing.T) {
	for name, asks := range map[string]bool{"while it asks": true, "while it begins": false} {
		t.Run(name, func(t *testing.T) {
			m, client := plain(t)
			cutAdoption(t, m, client, adoptOnprem(), Adopt()[:6])
			maps := client.CoreV1().ConfigMaps("kube-system")
			rec, err := maps.Get(t.Context(), v1alpha1.RecordName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := maps.Delete(t.Context(), v1alpha1.RecordName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			rec.ResourceVersion, rec.UID = "", ""
			publish := func() {
				if _, err := maps.Create(t.Context(), rec, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
			before, _ := phasestest.JournalOf(t)
			o, list := wayBack(t, client)
			r, out := adoption(t, m, *o, Adoption{Leave: true, Yes: !asks})
			if r.In = (says{publish}); !asks {
				atTheLease(t, m, publish)
			}
			phasestest.WantError(t, r.Do(t.Context(), list), "another run has published the cluster's record", finding.ExitRefused)
			if got := phasestest.Managers(t, client, m); got == "" {
				t.Errorf("the manager is gone\n%s", out)
			}
			runs, text := phasestest.JournalOf(t)
			if asks && len(runs) != len(before) || !asks && phasestest.Newest(runs).State != journal.Done {
				t.Errorf("the journal says\n%s", text)
			}
		})
	}
}

// A leave that is alive behind the cluster's record, and comes to its end while the next one waits for it, was not cut short; and it is
// what the way back goes by.
func TestCluster_Leave_EndsWhileTheNextWaits(t *testing.T) {
	m, client := plain(t)
	cutAdoption(t, m, client, adoptOnprem(), Adopt()[:6])
	leave := workflow.Inputs{Command: "leave", Operation: &Adoption{Leave: true, Yes: true}}
	alive := beginAdoption(t, m, leave, Leave())
	list, err := Ending(t.Context(), client)
	if err != nil || list == nil {
		t.Fatalf("%v, %v", list, err)
	}
	r, out := adoption(t, m, leave, Adoption{Leave: true, Yes: true})
	atTheLease(t, m, func() {
		if err := alive.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	err = r.Do(t.Context(), list)
	if err != nil || !strings.Contains(out.String(), "has ended since this run looked for it") || strings.Contains(out.String(), "closed") {
		t.Errorf("%v\n%s", err, out)
	}
	runs, text := phasestest.JournalOf(t)
	last := phasestest.Newest(runs)
	if leaves := leavesOf(runs, last); last.State != journal.Done || len(last.Steps) > 0 || len(leaves) != 2 || len(leaves[1].Steps) == 0 {
		t.Errorf("the journal says\n%s", text)
	}
	if o, _ := wayBack(t, client); o.Flags.Provider != "onprem" {
		t.Errorf("the way back has provider %q\n%s", o.Flags.Provider, text)
	}
}
