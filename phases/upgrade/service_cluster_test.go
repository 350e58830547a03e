package upgrade

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// An API server that does not say which addresses its Service has says nothing of kube-proxy's rules.
func TestCluster_ProbeService_NotLookedUp(t *testing.T) {
	m, _ := machinetest.New(t)
	config := phasestest.Proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		asked := strings.HasSuffix(r.URL.Path, "/services/kubernetes")
		if asked {
			http.Error(w, "no", http.StatusForbidden)
		}
		return asked
	})
	machinetest.Put(t, m, machine.KubeletConf, phasestest.KubeconfigText(t, config))
	run, _ := phasestest.Run{}.Must(t, m)
	err := probeService().Do(t.Context(), run)
	phasestest.WantError(t, err, "look for Service/default/kubernetes: ", finding.ExitNotInTime)
	if known := new(finding.Error); !errors.As(err, &known) || strings.Contains(known.Hint, "kube-proxy") {
		t.Errorf("it says %v, hint %s", err, known.Hint)
	}
}
