package adoption

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A hundred nodes are planned within ten seconds, with one question for each kubelet, though half of them hang. The API
// server is real; for kubelets, which it would not reach on loopback, a proxy before it answers.
func TestCluster_Adopt_HundredNodes(t *testing.T) {
	m, client := plain(t)
	for i := range 98 {
		phasestest.AddNode(t, client, fmt.Sprintf("h%02d", i), fmt.Sprintf("198.18.1.%d", i+1), nil)
	}
	for _, hangs := range []bool{false, true} {
		var kubelets, others atomic.Int32
		machinetest.Put(t, m, machine.AdminConf, phasestest.KubeconfigText(t, phasestest.Proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/proxy/flagz") {
				others.Add(1)
				return false
			}
			kubelets.Add(1)
			if hangs && strings.ContainsAny(r.URL.Path, "369") {
				<-r.Context().Done()
				return true
			}
			fmt.Fprint(w, `{"kind":"Flagz","flags":{"cloud-provider":"","node-ip":""}}`)
			return true
		})))
		run, out := adoption(t, m, workflow.Inputs{DryRun: true}, Adoption{})
		start := time.Now()
		if err := adoptPreflight().Do(t.Context(), run); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		took, silent := time.Since(start), strings.Count(out.String(), "not told")
		t.Logf("hangs: %v: %s; questions: %d to kubelets, %d others; %d did not tell", hangs, took, kubelets.Load(),
			others.Load(), silent)
		if took > 40*time.Second || kubelets.Load() != 99 || others.Load() > 20 {
			t.Errorf("%s, %d questions for 99 other kubelets, %d others", took, kubelets.Load(), others.Load())
		}
		if hangs && silent != 49 || !hangs && silent != 0 {
			t.Errorf("%d kubelets did not tell their flags\n%s", silent, out)
		}
	}
}
