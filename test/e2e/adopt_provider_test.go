package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// longestUnreleased is how long the nodes may be without a leader behind a manager that leaves its Lease held when it
// ends, as upstream's does: it has to run out, nobody else takes it for ten seconds more, and the next one comes up.
const longestUnreleased = longestWithout + 15*time.Second

// TestAdopt_Provider changes the provider of a cluster that lives: from onprem to upstream's sample, whose cloud has
// the same provider IDs, and back, by adopt and by rollback; and reads from the audit log who has written when.
func TestAdopt_Provider(t *testing.T) {
	l := up(t, "adoptprovider", 1, 1, "--image", adoptImage)
	l.loadCCM(t, "sample")
	l.must(t, "cp1", withAudit+" && mv /etc/lab/audited.yaml "+kubeadmYAML)
	nodes := l.plainControlPlanes(t, nil, []string{"w1"})
	l.must(t, "cp1", adoptByPods)
	l.expectInitialized(t, nodes...)
	ids, instances := map[string]string{}, map[string]map[string]string{}
	for name, n := range l.nodesNow(t) {
		ids[name] = n.Spec.ProviderID
		instances[name] = map[string]string{"id": n.Spec.ProviderID, "type": "metal", "address": l.address(t, name)}
	}
	cloud, err := json.Marshal(instances)
	if err != nil {
		t.Fatal(err)
	}
	l.put(t, cloudConf, string(cloud)+"\n")
	l.put(t, "/tmp/sample.yaml", "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nprovider: sample\n"+
		"controllerManager: {image: lab.local/sample-ccm:1, extraArgs: [--cloud-provider=sample]}\n"+
		"cloudConfig: {file: "+cloudConf+"}\n")
	restarts := l.kubectl(t, podRestarts+" | grep -v cloud-controller-manager")
	const back = "ccmadm rollback --via pods --yes"
	for _, mode := range []string{"DaemonSet", "Deployment"} {
		l.must(t, "cp1", cloudDocument+"'mode: "+mode+"' > /tmp/mode.yaml; ccmadm apply -f /tmp/mode.yaml")
		for _, change := range []struct{ name, command, to string }{
			{"adopt", "ccmadm adopt -f /tmp/sample.yaml --via pods --yes", "sample"},
			{"adopt", adoptByPods, "onprem"},
			{"rollback", back + " --cloud-config " + cloudConf, "sample"},
			{"rollback", back, "onprem"},
		} {
			t.Run(mode+", to "+change.to+" by "+change.name, func(t *testing.T) {
				start := time.Now()
				out := l.must(t, "cp1", change.command)
				t.Logf("%.1f s\n%s", time.Since(start).Seconds(), out)
				l.expectOneLeader(t, start, longestUnreleased, "cp1")
				l.expectInitialized(t, nodes...)
				for name, n := range l.nodesNow(t) {
					if n.Spec.ProviderID != ids[name] {
						t.Errorf("Node/%s has the provider ID %s, and had %s", name, n.Spec.ProviderID, ids[name])
					}
				}
				manager := strings.Fields(l.kubectl(t, "-n kube-system get daemonsets,deployments -o name | "+
					"grep cloud-controller-manager"))
				if want := strings.ToLower(mode) + ".apps/" + change.to + "-cloud-controller-manager"; len(manager) != 1 ||
					manager[0] != want {
					t.Errorf("the managers are %q, want %s", manager, want)
				}
				l.must(t, "cp1", "ccmadm diff")
			})
		}
	}
	l.expectNotRestarted(t, restarts)
}
