package phases

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/phases/machine/machinetest"
)

// An upgrade that was cut short behind any phase is completed by the same command, with kubeadm's half done once where
// it had come to its end. Then nothing is half done any more: a third run is none.
func TestCluster_Upgrade_CutShortBehindEachPhase(t *testing.T) {
	apply := Upgrade{Version: "v1.36.3"}
	for n, p := range upgradePhases() {
		t.Run(p.Name, func(t *testing.T) {
			u := newUpgradable(t)
			u.kubelet(t, nil)
			u.kubeadm(t, "cp1")
			d, out, list := u.begun(t, apply)
			for _, p := range list[:n+1] {
				if err := p.run(t.Context(), d); err != nil {
					t.Fatalf("%s: %v\n%s", p.Name, err, out)
				}
			}
			leases := u.client.CoordinationV1().Leases("kube-system") // as if its time were over
			if err := leases.Delete(t.Context(), v1alpha1.RunLeaseName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if out, err := u.do(t, apply); err != nil || u.managerImage(t) != u.images["1.36"] || u.ran() != 1 {
				t.Errorf("the manager is %s, kubeadm ran %d times: %v\n%s", u.managerImage(t), u.ran(), err, out)
			}
			rec, err := readRecord(t.Context(), u.client)
			if err != nil || rec.KubernetesVersion != "v1.36.3" {
				t.Errorf("the record says %+v, %v", rec, err)
			}
			flags := machinetest.Content(u.m, machine.KubeadmFlags)
			if flags != "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external\"\n" {
				t.Errorf("the kubelet's flags are %s", flags)
			}
			before, text := journalOf(t)
			if newest(before).State != journal.Done {
				t.Errorf("the journal says\n%s", text)
			}
			if out, err := u.do(t, apply); err != nil {
				t.Errorf("once more: %v\n%s", err, out)
			}
			if after, text := journalOf(t); len(after) != len(before) {
				t.Errorf("once more is in the journal:\n%s", text)
			}
		})
	}
}
