package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// inCloud changes the fake cloud's state by a script of sed.
func inCloud(script string) step { return step{cloudNode, "sed -i '" + script + "' " + cloudFile} }

const (
	osConf = "/etc/kubernetes/cloud-config/cloud.conf"
	// remade has the kubelet make the static pod anew, without the patience that it has with one that fails.
	remade = "sed -i 's|memory: 48Mi|memory: 48Mi |;s|cpu: 25m|cpu: 26m|;t;s|cpu: 26m|cpu: 25m|' " + managerYAML + "\n"
	keep   = "cp " + osConf + " /root/cloud.conf\n"
	back   = "cp /root/cloud.conf " + osConf + "\n" + remade
)

// openstackFaults are those of its cloud, wherever its manager runs: on cp1, w1 and w3, with the cloud on w2.
func openstackFaults() []injected {
	deny, allow := inCloud(`s/"denied":false/"denied":true/`), inCloud(`s/"denied":true/"denied":false/`)
	unknown, known := inCloud(`s/"id":"6d5f3c4e-0000-4000-8000-000000000002"/"id":"gone"/`), inCloud(`s/"id":"gone"/"id":"6d5f3c4e-0000-4000-8000-000000000002"/`)
	const taintW1 = "kubectl taint node w1 " + taint + "=true:NoSchedule"
	return []injected{
		{id: "D3", what: "OpenStack refuses: a policy has changed", first: deny, inject: taintW1, choice: allow.command, choiceOn: cloudNode},
		{id: "W10", what: "OpenStack does not know the server (E1)", first: unknown, inject: taintW1, choice: known.command, choiceOn: cloudNode},
		{
			id: "N3", what: "the labels of a Node's zone were removed",
			inject: "kubectl label node w1 topology.kubernetes.io/zone- failure-domain.beta.kubernetes.io/zone-",
		},
	}
}

// cloudFaults are those of the files and arguments of a vendor's own manager as a static pod: openstack's.
func cloudFaults() []injected {
	return []injected{
		{
			id: "D3", what: "OpenStack's secret is wrong", inject: keep + "sed -i 's/" + cloudKey + "/wrong/' " + osConf + "\n" + remade,
			choice: back,
		},
		{
			id: "C6", what: "the cloud's address is a name that nobody knows",
			inject: keep + "sed -i 's|^auth-url = .*|auth-url = http://cloud.invalid:8773/identity/v3|' " + osConf + "\n" + remade, choice: back,
		},
		{
			id: "C3", what: "the cloud's name is asked of a CoreDNS that does not run",
			inject: keep + "sed -i 's|^auth-url = .*|auth-url = http://cloud.example.org:8773/identity/v3|' " + osConf + "\n" +
				`kubectl -n kube-system patch deployment coredns -p '{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"},"template":{"spec":{"nodeSelector":{"no":"where"}}}}}'` + "\n" +
				"sed -i 's|dnsPolicy: Default|dnsPolicy: ClusterFirstWithHostNet|' " + managerYAML,
			choice: "sed -i 's|dnsPolicy: ClusterFirstWithHostNet|dnsPolicy: Default|' " + managerYAML + "\n" + back +
				`kubectl -n kube-system patch deployment coredns -p '{"spec":{"template":{"spec":{"nodeSelector":{"no":null}}}}}'`,
		},
		{id: "D2", what: "the cloud's configuration was removed", inject: keep + "rm " + osConf + "\n" + remade},
		{id: "B15", what: "external as the manager's provider", inject: "sed -i 's|--cloud-provider=openstack|--cloud-provider=external|' " + managerYAML},
		{id: "B14", what: "a controller that openstack's manager does not know", inject: withArgument("--controllers=cloud-nodes")},
		{
			id: "B11", what: "a webhook port that is the secure port",
			inject: "grep -q webhook-secure-port=0 " + managerYAML + "; sed -i 's|webhook-secure-port=0|webhook-secure-port=10258|' " + managerYAML,
		},
		{id: "B16", what: "openstack's manager with a lock that is no Lease", inject: withArgument("--leader-elect-resource-lock=endpoints")},
	}
}

// faultsOfVendorsStaticPod have nothing to do with a cloud, and somebody's own manager as a static pod for a victim.
func faultsOfVendorsStaticPod(vendor string) []injected {
	role, manager := "clusterrole/ccmadm:"+vendor, vendor+"'s manager"
	return []injected{
		{id: "D8", what: manager + " may not update nodes", inject: without(role, 1, "nodes", `"patch"`)},
		{id: "D13", what: manager + " may not watch nodes", inject: without(role, 0, "nodes", `"get","list"`)},
		{
			id: "D5", what: manager + " starts anew, and may not read how callers are authenticated",
			inject: "kubectl -n kube-system delete rolebinding ccmadm:" + vendor + ":authentication-reader\n" + remade,
		},
		{
			id: "W25", what: "image of " + manager + " that no registry has",
			inject: "sed -i 's|image: .*|image: registry.invalid/nothing:1|' " + managerYAML,
		},
	}
}

// cloudFaultsOfAnybody are such, and about OpenStack's own besides.
func cloudFaultsOfAnybody() []injected {
	unnamed, named := inCloud(`s/"name":"w1"/"name":"other"/`), inCloud(`s/"name":"other"/"name":"w1"/`)
	return append(faultsOfVendorsStaticPod("openstack"), []injected{
		{
			id: "W10", what: "OpenStack has no server of the Node's name (E1)", first: unnamed, inject: asNew("w1"),
			choice: named.command, choiceOn: cloudNode,
		},
		{
			id: "H2", what: "second static pod of openstack's manager, with a Lease of its own",
			inject: secondLease("--user=system:cloud-controller-manager") +
				"sed -e 's|^  name: cloud-controller-manager|  name: second|' -e 's|10258|10268|;/managed-by/d' " +
				"-e 's|--leader-elect=true|--leader-elect-resource-name=second\\n    - --secure-port=10268|' " +
				managerYAML + " > " + secondYAML,
			choice: "rm " + secondYAML, undo: noSecondLease,
		},
		longLease("Lease of openstack's manager that lasts an hour, of a holder that is no more"),
	}...)
}

const secondYAML = "/etc/kubernetes/manifests/second.yaml"

// asNew makes a Node anew that runs on, as one that registers: tainted, and with no provider ID.
func asNew(node string) string {
	return "kubectl get node " + node + " -o yaml | grep -v -e providerID -e resourceVersion -e ' uid:' | " +
		"sed 's|^spec:|&\\n  taints: [{key: " + taint + `, value: "true", effect: NoSchedule}]|' > /root/node.yaml` + "\n" +
		"kubectl delete node " + node + "; kubectl create -f /root/node.yaml"
}

// TestFaults_Cloud is about what only a cloud can do wrong.
func TestFaults_Cloud(t *testing.T) {
	t.Parallel()
	l := &library{lab: up(t, "faultscloud", 1, 3), cluster: cloudCluster, table: &faultTable{rows: map[string][]string{}}}
	l.loadCCM(t, "openstack")
	state := cloudState{Region: "RegionOne", Key: cloudKey}
	for i, node := range []string{"cp1", "w1", "w3"} {
		state.Machines = append(state.Machines, cloudMachine{
			ID: fmt.Sprintf("6d5f3c4e-0000-4000-8000-00000000000%d", i+1), Name: node, Address: l.address(t, node), Zone: "nova",
			Type: "m1.small", State: "running",
		})
	}
	endpoint := "http://" + l.startCloud(t, state)
	l.configure(t, "provider: openstack\ncloudConfig: {file: "+cloudConf+"}\n",
		map[string]string{cloudConf: strings.ReplaceAll(openstackConfig, "ENDPOINT", endpoint)})
	l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1))
	for _, w := range []string{"w1", "w3"} {
		l.must(t, w, l.joinCommand(t))
	}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w3")
	l.all(t, openstackFaults(), cloudFaults(), cloudFaultsOfAnybody())
	l.must(t, "cp1", cloudDocument+"'mode: DaemonSet\ncloudConfig: {file: "+cloudConf+"}' > /root/cloud.yaml; ccmadm apply -f /root/cloud.yaml")
	l.cluster = cloudSetCluster
	l.all(t, openstackFaults(), faultsOfVendorsPods("openstack"))
	l.table.write(t, "openstack", cloudCluster, l.cluster)
}
