package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const openstackConfig = `[Global]
auth-url = ENDPOINT/identity/v3
region = RegionOne
application-credential-id = lab
application-credential-secret = ` + cloudKey + `
[LoadBalancer]
enabled = false
`

// TestRealCCM_OpenStack: the controller manager of k8s.io/cloud-provider-openstack, with its configuration as only file.
func TestRealCCM_OpenStack(t *testing.T) {
	t.Parallel()
	l := up(t, "openstack", 1, 2)
	l.loadCCM(t, "openstack")
	cp, w := l.address(t, "cp1"), l.address(t, "w1")
	state := cloudState{Region: "RegionOne", Key: cloudKey, Machines: []cloudMachine{
		{ID: "6d5f3c4e-0000-4000-8000-000000000001", Name: "cp1", Address: cp, Zone: "nova", Type: "m1.large", State: "running"},
		{ID: "6d5f3c4e-0000-4000-8000-000000000002", Name: "w1", Address: w, Zone: "nova-b", Type: "m1.small", State: "running"},
	}}
	endpoint := "http://" + l.startCloud(t, state)
	l.configure(t, "provider: openstack\ncloudConfig: {file: "+cloudConf+"}\n",
		map[string]string{cloudConf: strings.ReplaceAll(openstackConfig, "ENDPOINT", endpoint)})
	l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1))
	l.expectNode(t, "cp1", wantNode{"openstack:///6d5f3c4e-0000-4000-8000-000000000001", "nova", "RegionOne", "m1.large", cp})
	l.must(t, "w1", l.joinCommand(t))
	l.expectNode(t, "w1", wantNode{"openstack:///6d5f3c4e-0000-4000-8000-000000000002", "nova-b", "RegionOne", "m1.small", w})
	l.expectNothingForbiddenInLog(t)

	t.Run("the node of a deleted server goes", func(t *testing.T) {
		l.run(t, "kill", "--name", l.name, "w1")
		state.Machines[1].State = "terminated"
		l.setCloud(t, state)
		eventually(t, 90*time.Second, "the node of w1 goes", func() bool { _, there := l.nodesNow(t)["w1"]; return !there })
	})
}

const vsphereConfig = `global: {secretsDirectory: /etc/kubernetes/cloud-config}
vcenter:
  lab: {server: HOST, port: ` + cloudPort + `, user: lab, password: ` + cloudKey + `, insecureFlag: true, datacenters: [DC0]}
`

// newVSphere is a cluster with the controller manager of k8s.io/cloud-provider-vsphere, and with VMware's simulator of a
// vCenter on w2.
func newVSphere(t *testing.T, name string) (*lab, cloudState) {
	t.Helper()
	l := up(t, name, 1, 2)
	built := l.loadCCM(t, "vsphere")
	state := cloudState{Key: cloudKey, Machines: []cloudMachine{
		{ID: "42307a3c-0000-4000-8000-000000000001", Name: "cp1", Address: l.address(t, "cp1"), State: "running"},
		{ID: "42307a3c-0000-4000-8000-000000000002", Name: "w1", Address: l.address(t, "w1"), State: "running"},
	}}
	host, _, _ := strings.Cut(l.runCloud(t, filepath.Join(built, "vcenter"), state), ":")
	l.configure(t, "provider: vsphere\ncloudConfig: {file: "+cloudConf+"}\n",
		map[string]string{cloudConf: strings.ReplaceAll(vsphereConfig, "HOST", host)})
	eventually(t, time.Minute, "vCenter is ready", func() bool { return l.asked(t, "ready on") > 0 })
	l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1))
	l.must(t, "w1", l.joinCommand(t))
	return l, state
}

// TestRealCCM_VSphere: a machine is known by its UUID, and its node goes with it.
func TestRealCCM_VSphere(t *testing.T) {
	t.Parallel()
	l, state := newVSphere(t, "vsphere")
	const kind = "vsphere-vm.cpu-1.mem-0gb.os-other" // the simulator's machines are all alike
	for _, m := range state.Machines {
		l.expectNode(t, m.Name, wantNode{"vsphere://" + m.ID, "", "", kind, m.Address})
	}
	l.expectNothingForbiddenInLog(t)

	t.Run("the node of a destroyed machine goes", func(t *testing.T) {
		l.run(t, "kill", "--name", l.name, "w1")
		state.Machines[1].State = "terminated"
		l.setCloud(t, state)
		eventually(t, 90*time.Second, "the node of w1 goes", func() bool { _, there := l.nodesNow(t)["w1"]; return !there })
	})
}

// newSample is a cluster with upstream's sample of a cloud-controller-manager, with a provider that reads a file.
func newSample(t *testing.T, name string) *lab {
	t.Helper()
	l := up(t, name, 1, 1)
	l.loadCCM(t, "sample")
	l.sampleConfiguration(t)
	l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1))
	l.must(t, "w1", l.joinCommand(t))
	return l
}

// sampleConfiguration has an instance for each machine, in the file that the sample reads.
func (l *lab) sampleConfiguration(t *testing.T) {
	t.Helper()
	number := map[string]string{"cp1": "one", "w1": "two", "w2": "three"}
	instances := map[string]map[string]string{}
	for _, node := range l.nodes {
		instances[node] = map[string]string{"id": number[node], "type": "metal", "zone": "z1", "region": "r1", "address": l.address(t, node)}
	}
	cloud, err := json.Marshal(instances)
	if err != nil {
		t.Fatal(err)
	}
	l.configure(t, "provider: sample\ncontrollerManager: {image: lab.local/sample-ccm:1, extraArgs: [--cloud-provider=sample]}\n"+
		"cloudConfig: {file: "+cloudConf+"}\n", map[string]string{cloudConf: string(cloud) + "\n"})
}

// TestRealCCM_Sample: each node is what its file says.
func TestRealCCM_Sample(t *testing.T) {
	t.Parallel()
	l := newSample(t, "sample")
	l.expectNode(t, "cp1", wantNode{"sample://one", "z1", "r1", "metal", l.address(t, "cp1")})
	l.expectNode(t, "w1", wantNode{"sample://two", "z1", "r1", "metal", l.address(t, "w1")})
	l.expectNothingForbiddenInLog(t)
}
