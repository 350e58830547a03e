package upgrade

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// An upgrade that was cut short has noted the flags of before. What goes on with it does not bring external mode back.
func TestNode_PlainInTheMiddleOfAnUpgrade(t *testing.T) {
	m, _ := phasestest.KubeletOf(t)
	const before = `KUBELET_KUBEADM_ARGS="--cloud-provider=external --node-ip=198.18.0.11 --v=2"` + "\n"
	machinetest.Put(t, m, machine.KubeadmFlags, before)
	r, _ := phasestest.Run{}.Must(t, m)
	if err := keepKubeletFlags(r.Env); err != nil {
		t.Fatal(err)
	}
	// As kubeadm mangles it.
	machinetest.Put(t, m, machine.KubeadmFlags, `KUBELET_KUBEADM_ARGS="--cloud-provider=external --v=2"`+"\n")
	if out, err := stepOnNode(t, m, true, ""); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	upgrade := phasestest.Run{Inputs: workflow.Inputs{Operation: &Upgrade{target: version.MustParseSemantic("v1.36.3")}}}
	if out, err := upgrade.Do(t, m, kubeletFlags()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := machinetest.Content(m, machine.KubeadmFlags); got != "KUBELET_KUBEADM_ARGS=\"--node-ip=198.18.0.11 --v=2\"\n" {
		t.Errorf("left %q", got)
	}
}
