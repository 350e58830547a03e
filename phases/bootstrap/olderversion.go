package bootstrap

import (
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// sayOlderVersion warns of a file whose kubernetesVersion is older than the API server here: init changes no version.
func sayOlderVersion(r *workflow.Run) error {
	pod, err := record.ReadStaticPod(r.Machine, machine.APIServerPod)
	if err != nil || pod == nil {
		return err
	}
	if said, runs := r.KubeadmFile.KubernetesVersion(), manager.VersionOf(pod, planner.APIServer); isOlder(said, runs) {
		r.Sayf("warning, %skubernetesVersion %s is not brought: the API server here is v%s, and init changes no version",
			filePrefix(r.ConfigFile), said, runs)
	}
	return nil
}

// isOlder tells whether a version that a file says is older than what runs. A label such as stable is no version.
func isOlder(said string, runs *version.Version) bool {
	v, err := version.ParseSemantic(said)
	return err == nil && runs != nil && v.LessThan(runs)
}
