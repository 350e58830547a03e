package e2e

import (
	"fmt"
	"testing"
	"time"
)

// objectFaults are those of a cluster with the provider onprem whose manager runs: cp1, w1 and w2.
func objectFaults() [][]injected {
	return [][]injected{
		faultsOfPermissions(), faultsOfWebhooks(), faultsOfServices(), faultsOfKubelets(), faultsOfMachines(), faultsOfRecords(), faultsOfComponents(),
		faultsOfClocks(),
	}
}

// staticFaults are those of its manager as a static pod.
func staticFaults() [][]injected {
	return [][]injected{faultsOfArguments(), faultsOfStaticFiles(), faultsOfHolders()}
}

// without replaces the verbs of a rule, which has to be about the resource.
func without(role string, rule int, resource, left string) string {
	return fmt.Sprintf(`kubectl -n kube-system patch %s --type=json -p '[{"op":"test","path":"/rules/%d/resources/0","value":%q},`+
		`{"op":"replace","path":"/rules/%d/verbs","value":[%s]}]'`, role, rule, resource, rule, left)
}

const onpremRole = "clusterrole/ccmadm:onprem"

// faultsOfPermissions take one verb after another, and then all of them.
func faultsOfPermissions() []injected {
	return []injected{
		{id: "D13", what: "RBAC: list nodes taken", inject: without(onpremRole, 0, "nodes", `"get","watch"`)},
		{id: "D13", what: "RBAC: watch nodes taken", inject: without(onpremRole, 0, "nodes", `"get","list"`)},
		{id: "D13", what: "RBAC: get nodes taken", inject: without(onpremRole, 0, "nodes", `"list","watch"`)},
		{id: "D8", what: "RBAC: update nodes taken", inject: without(onpremRole, 1, "nodes", `"patch"`)},
		{id: "D8", what: "RBAC: patch nodes taken", inject: without(onpremRole, 1, "nodes", `"update"`)},
		{id: "D8", what: "RBAC: patch nodes/status taken", inject: without(onpremRole, 2, "nodes/status", `"get"`)},
		{id: "D10", what: "RBAC: create events taken", inject: without(onpremRole, 3, "events", `"patch"`)},
		{id: "D9", what: "RBAC: list services taken", inject: without(onpremRole, 6, "services", `"get","watch","patch","update"`)},
		{id: "D9", what: "RBAC: patch services/status taken", inject: without(onpremRole, 7, "services/status", `"update"`)},
		{id: "D6", what: "RBAC: update leases taken", inject: without("role/ccmadm:onprem", 1, "leases", `"get"`)},
		{id: "D5", what: "RBAC: RoleBinding to extension-apiserver-authentication-reader deleted", inject: "kubectl -n kube-system delete rolebinding ccmadm:onprem:authentication-reader"},
		{id: "D13", what: "RBAC: ClusterRoleBinding deleted", inject: "kubectl delete clusterrolebinding ccmadm:onprem"},
		{id: "D13", what: "RBAC: ClusterRole deleted", inject: "kubectl delete clusterrole ccmadm:onprem"},
	}
}

// webhook is one of a Service that is not there.
func webhook(kind, group, resources string) string {
	return fmt.Sprintf(`kubectl create -f - <<'END'
apiVersion: admissionregistration.k8s.io/v1
kind: %sWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.org
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: default, name: guard}}
  rules: [{apiGroups: [%q], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [%s]}]
END`, kind, group, resources)
}

func faultsOfWebhooks() []injected {
	faults := []injected{
		{id: "B7", what: "webhook on nodes fails closed", inject: webhook("Validating", "", "nodes, nodes/status")},
		{id: "B7", what: "webhook on pods fails closed", inject: webhook("Validating", "", "pods")},
		{id: "B7", what: "webhook on leases fails closed", inject: webhook("Validating", "coordination.k8s.io", "leases")},
		{id: "B7", what: "webhook on services fails closed", inject: webhook("Validating", "", "services, services/status")},
		{id: "B7", what: "mutating webhook on everything fails closed", inject: webhook("Mutating", "*", `"*"`)},
	}
	for i := range faults { // the remedy leaves it there, and the next is made under the same name
		faults[i].undo = "kubectl delete --ignore-not-found validatingwebhookconfiguration/guard mutatingwebhookconfiguration/guard"
	}
	return faults
}

const (
	managerYAML = "/etc/kubernetes/manifests/cloud-controller-manager.yaml"
)

// withArgument adds one to the static pod.
func withArgument(arg string) string {
	return "sed -i 's|^    - --leader-elect=true|&\\n    - " + arg + "|' " + managerYAML
}

func faultsOfArguments() []injected {
	return []injected{
		{id: "B13", what: "argument that the manager does not know", inject: withArgument("--port=10253")},
		{id: "B14", what: "controller that the manager does not know", inject: withArgument("--controllers=cloud-nodes")},
		{id: "B15", what: "no cloud provider", inject: withArgument("--cloud-provider=")},
		{id: "B15", what: "cloud provider that the manager does not know", inject: withArgument("--cloud-provider=nimbus")},
		{id: "B16", what: "lock that is no Lease", inject: withArgument("--leader-elect-resource-lock=endpointsleases")},
		{id: "D2", what: "cloud config that is not there", inject: withArgument("--cloud-config=/etc/kubernetes/nowhere.conf")},
	}
}

// restarted ends the manager, which the kubelet starts again.
const restarted = "\nkill $(pidof cloud-controller-manager)"

// signed replaces the manager's client certificate by one of a CA that lasts for as many days.
func signed(ca string, days int) string {
	return fmt.Sprintf(`set -e
cd /root
%s
openssl req -new -newkey rsa:2048 -nodes -keyout c.key -subj /CN=system:cloud-controller-manager -out c.csr 2>/dev/null
openssl x509 -req -in c.csr -CA $ca.crt -CAkey $ca.key -CAcreateserial -days %d -out c.crt 2>/dev/null
sleep 1
kubectl --kubeconfig %[3]s config set-credentials system:cloud-controller-manager --embed-certs --client-certificate c.crt --client-key c.key`,
		ca, days, managerConf) + restarted
}

func faultsOfStaticFiles() []injected {
	return []injected{
		{id: "W25", what: "image that no registry has", inject: "sed -i 's|image: .*|image: registry.invalid/nothing:1|' " + managerYAML},
		{id: "W20", what: "manifest of the static pod removed", inject: "mv " + managerYAML + " /root/"},
		{id: "W20", what: "static pod refers to a ServiceAccount (A15, which only the machine shows)", inject: "sed -i 's|^  hostNetwork: true|&\\n  serviceAccountName: default|' " + managerYAML},
		{id: "W28", what: "kubeconfig of the static pod removed", inject: "mv " + managerConf + " /root/; sed -i 's|cpu: 25m|cpu: 26m|' " + managerYAML},
		{id: "W12", what: "client certificate of another CA", inject: signed("openssl req -x509 -newkey rsa:2048 -nodes -keyout o.key -subj /CN=other -days 9 -out o.crt 2>/dev/null; ca=o", 9)},
		{id: "W12", what: "client certificate that has ended", inject: signed("ca=/etc/kubernetes/pki/ca", 0)},
		{
			id: "B10", what: "port 10258 taken by another program",
			inject: "systemd-run --quiet --unit thief bash -c 'while :; do socat TCP-LISTEN:10258,bind=127.0.0.1,reuseaddr,fork /dev/null; sleep 0.05; done'" + restarted,
			choice: "systemctl stop thief",
		},
		{
			id: "H1", what: "Lease held by another program",
			inject: `systemd-run --quiet --unit thief -E KUBECONFIG bash -c 'while :; do kubectl -n kube-system patch lease cloud-controller-manager -p "{\"spec\":{\"holderIdentity\":\"rke2-server_7\",\"renewTime\":\"$(date -u +%FT%T.000000Z)\"}}"; sleep 1; done'`,
			choice: "systemctl stop thief",
		},
	}
}

// restartKubelet makes it read its flags.
const restartKubelet = "; systemctl restart kubelet"

func faultsOfKubelets() []injected {
	const env = "/var/lib/kubelet/kubeadm-flags.env"
	const back = "cp /root/flags.env " + env + "; rm -rf /etc/systemd/system/kubelet.service.d/20-ccmadm.conf /etc/ccmadm/kubelet.env; systemctl daemon-reload" + restartKubelet
	return []injected{
		{
			id: "W18", what: "--cloud-provider gone from kubeadm-flags.env", on: "w1",
			inject: "cp " + env + " /root/flags.env; sed -i 's/--cloud-provider=external //' " + env + restartKubelet, undo: back,
		},
		{
			id: "W18", what: "--cloud-provider overridden in /etc/default/kubelet", on: "w2",
			inject: "echo 'KUBELET_EXTRA_ARGS=--cloud-provider=' > /etc/default/kubelet" + restartKubelet,
			choice: "rm /etc/default/kubelet" + restartKubelet,
		},
		{
			id: "W18", what: "--cloud-provider overridden by a drop-in of systemd", on: "w1",
			inject: "mkdir -p /etc/systemd/system/kubelet.service.d; printf '[Service]\\nEnvironment=KUBELET_EXTRA_ARGS=--cloud-provider=\\n' > /etc/systemd/system/kubelet.service.d/99-x.conf; systemctl daemon-reload" + restartKubelet,
			choice: "rm /etc/systemd/system/kubelet.service.d/99-x.conf; systemctl daemon-reload" + restartKubelet,
		},
		{
			id: "W5", what: "CNI configuration removed", on: "w2", inject: "mkdir -p /root/cni; mv /etc/cni/net.d/* /root/cni/",
			choice: "cp /root/cni/* /etc/cni/net.d/",
		},
		{
			id: "N1", what: "Node deleted under its kubelet, which only the machine shows", on: "w2", host: true,
			first: step{"cp1", asAdmin + "kubectl delete node w2"}, inject: "systemctl is-active kubelet",
		},
		{
			id: "W2", what: "Node made again by hand, without taint and provider ID", on: "cp1",
			inject: "kubectl get node w2 -o yaml | grep -v -e providerID -e resourceVersion -e ' uid:' > /root/w2.yaml; kubectl delete node w2; kubectl create -f /root/w2.yaml",
		},
	}
}

// TestFaults_Objects: each fault is named, its remedy works, and the doctor is silent again.
func TestFaults_Objects(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "faults", objectCluster, "")
	l.run(t, "cp", "--name", l.name, buildProgram(t, "clock"), "w1:/usr/local/bin/clock")
	l.all(t, objectFaults()...)
	l.table.write(t, "objects", l.cluster)
}

// TestFaults_StaticPod is about a manager that does not run.
func TestFaults_StaticPod(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "faultspod", staticCluster, "")
	l.all(t, staticFaults()...)
	l.table.write(t, "static", l.cluster)
}

// newLibrary is a cluster that is well: cp1, w1 and w2.
func newLibrary(t *testing.T, name, cluster, flags string) *library {
	t.Helper()
	l := &library{lab: up(t, name, 1, 2), cluster: cluster, table: &faultTable{rows: map[string][]string{}}}
	l.must(t, "cp1", ccmadmInit+flags)
	join := l.joinCommand(t)
	for _, w := range []string{"w1", "w2"} {
		l.must(t, w, join)
	}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	return l
}

// faultsOfHolders are of a Lease that nobody holds any more.
func faultsOfHolders() []injected {
	return []injected{
		longLease("Lease that lasts an hour, of a holder that is no more"),
		{
			id: "W14", what: "kubelet and manager of the leader's machine have ended", within: 2 * time.Minute,
			inject: "systemctl stop kubelet; sleep 1" + restarted, choice: "systemctl start kubelet",
		},
	}
}

// longLease is written by a holder that is gone.
func longLease(what string) injected {
	return injected{
		id: "H5", what: what, within: 2 * time.Minute,
		inject: `kubectl -n kube-system patch lease cloud-controller-manager -p "{\"spec\":{\"holderIdentity\":\"old-cp_1f0a\",` +
			`\"leaseDurationSeconds\":3600,\"renewTime\":\"$(date -u -d '3 hours ago' +%FT%T.000000Z)\"}}"`,
	}
}
