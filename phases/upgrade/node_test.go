package upgrade

import (
	"testing"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
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
	if out, err := (phasestest.Run{}).Do(t, m, kubeletFlags()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := machinetest.Content(m, machine.KubeadmFlags); got != "KUBELET_KUBEADM_ARGS=\"--node-ip=198.18.0.11 --v=2\"\n" {
		t.Errorf("left %q", got)
	}
}
