package upgrade

import (
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// In the middle of an upgrade the record has the release of the control planes that are done. Another one whose API
// server is older stays with its own until it is upgraded, whichever command writes the static pod.
func TestCluster_Apply_OlderAPIServer_StaticPod(t *testing.T) {
	images := phasestest.AwsImages(t)
	said := config.CloudConfiguration{
		Provider: "aws", Mode: config.ModeStaticPod, ClusterName: "ber1",
		ControllerManager: config.ControllerManager{Image: images["1.35"]},
	}
	m := existingtest.LivingAs(t, said)
	kubeadmsObjects(t, kubernetes.NewForConfigOrDie(phasestest.Cluster.Config))
	machinetest.Put(t, m, machine.APIServerPod, phasestest.APIServerPod("v1.35.4"))
	do := func(list ...workflow.Phase) {
		t.Helper()
		for _, p := range list {
			if out, err := (phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}).Do(t, m, p); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	do(manager.Kubeconfig(), manager.ControlPlane())
	said.ControllerManager.Image = images["1.36"]
	do(manager.Record()) // as the first control plane has left it

	before := phasestest.Snapshot(t, m)
	wantRefused := func(err error) {
		t.Helper()
		phasestest.WantError(t, err, "newer than the API server of Node/cp1, v1.35.4", finding.ExitRefused)
		if machinetest.Content(m, machine.CCMManifest) != before[machine.CCMManifest] {
			t.Errorf("the static pod is\n%s", machinetest.Content(m, machine.CCMManifest))
		}
	}
	_, _, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{})
	wantRefused(err)
	_, err = phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}.Do(t, m, manager.ControlPlane())
	wantRefused(err)

	machinetest.Put(t, m, machine.APIServerPod, phasestest.APIServerPod("v1.36.3"))
	if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}); err != nil || !changed ||
		!strings.Contains(machinetest.Content(m, machine.CCMManifest), images["1.36"]) {
		t.Errorf("once it is upgraded: changed %v, %v\n%s", changed, err, out)
	}
}

// What may ask any API server must not be newer than the oldest, whoever names its image. It may be newer already,
// which keeps nobody from another change.
func TestCluster_Apply_OlderAPIServer_DaemonSet(t *testing.T) {
	u := newUpgradable(t)
	u.node(t, "cp2", true)
	u.image(t, "cp1", "v1.36.3")
	newer := phasestest.CloudDocument + "controllerManager: {image: '" + u.images["1.36"] + "'}\n"
	_, _, err := existingtest.ApplyRun(t, u.m, newer, workflow.Inputs{})
	phasestest.WantError(t, err, "newer than the API server of Node/cp2, v1.35.4", finding.ExitRefused)
	if got := u.managerImage(t); got != u.images["1.35"] {
		t.Errorf("the manager is %s", got)
	}
	if out, _, err := existingtest.ApplyRun(t, u.m, "", workflow.Inputs{}); err != nil || u.managerImage(t) != u.images["1.35"] {
		t.Errorf("without naming it: %v\n%s", err, out)
	}
	u.image(t, "cp2", "v1.36.3")
	if out, _, err := existingtest.ApplyRun(t, u.m, newer, workflow.Inputs{}); err != nil || u.managerImage(t) != u.images["1.36"] {
		t.Errorf("once all are of 1.36: %v\n%s", err, out)
	}
	u.image(t, "cp2", "v1.35.4")
	argument := phasestest.CloudDocument + "controllerManager: {extraArgs: [--v=4]}\n"
	if out, changed, err := existingtest.ApplyRun(t, u.m, argument, workflow.Inputs{}); err != nil || !changed {
		t.Errorf("another change: changed %v, %v\n%s", changed, err, out)
	}
}
