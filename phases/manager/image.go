package manager

import (
	"net/netip"
	"net/url"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// NamedImage is the image that the user names for the version, now or on a control plane before this one.
func NamedImage(rec *state.Record, said string, target *version.Version) string {
	recorded, err := version.ParseSemantic(rec.KubernetesVersion)
	if said != "" || err != nil || recorded.Major() != target.Major() || recorded.Minor() != target.Minor() {
		return said
	}
	return rec.NextImage
}

// nextImage is that image for the record: until the manager comes to another one, or a rollback takes it back.
func nextImage(r *workflow.Run, s *settings.Settings) string {
	switch rec := s.Recorded; {
	case r.Operation.Manager().Ordered:
		return r.Operation.Manager().Next
	case rec == nil || r.ImageBy != "" || rec.Configuration.ControllerManager.Image != s.ControllerManager.Image:
		return ""
	default:
		return rec.NextImage
	}
}

// AsksOwnServer tells whether the static pod asks this machine's API server and no other, as kube-controller-manager
// does: then it goes with it.
func AsksOwnServer(m *machine.Machine) bool {
	config, err := clientcmd.LoadFromFile(m.Path(machine.CCMKubeconfig))
	if err != nil {
		return false
	}
	server, err := workflow.ServerOf(config, machine.CCMKubeconfig)
	if err != nil {
		return false
	}
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && (addr.IsLoopback() || m.CheckLocal([]netip.Addr{addr}) == nil)
}
