package phases

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// An API server that does not say which addresses its Service has says nothing of kube-proxy's rules.
func TestCluster_ProbeService_NotLookedUp(t *testing.T) {
	m, _ := machinetest.New(t)
	config := proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		asked := strings.HasSuffix(r.URL.Path, "/services/kubernetes")
		if asked {
			http.Error(w, "no", http.StatusForbidden)
		}
		return asked
	})
	machinetest.Put(t, m, machine.KubeletConf, kubeconfigText(t, config))
	d, _ := run{}.must(t, m)
	err := probeService().run(t.Context(), d)
	wantError(t, err, "look for Service/default/kubernetes: ", finding.ExitNotInTime)
	if known := new(finding.Error); !errors.As(err, &known) || strings.Contains(known.Hint, "kube-proxy") {
		t.Errorf("it says %v, hint %s", err, known.Hint)
	}
}
