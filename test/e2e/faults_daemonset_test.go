package e2e

import (
	"strings"
	"testing"
)

const (
	managerSet  = "daemonset/onprem-cloud-controller-manager"
	managerPods = "-l component=cloud-controller-manager"
)

// patched changes a workload of kube-system by a JSON patch.
func patched(workload, patch string) string {
	return "kubectl -n kube-system patch " + workload + " --type=json -p '[" + patch + "]'\n"
}

// withoutToleration takes one away, by its place, which has to be that of the key.
func withoutToleration(workload, place, key string) string {
	at := "/spec/template/spec/tolerations/" + place
	return patched(workload, `{"op":"test","path":"`+at+`/key","value":"`+key+`"},{"op":"remove","path":"`+at+`"}`)
}

// argument adds one to the manager's.
func argument(text string) string {
	return patched(managerSet, `{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"`+text+`"}`)
}

// parked sends the manager's pods away while something else is done, and lets them come back.
func parked(workload, meanwhile string) string {
	const selector = `"path":"/spec/template/spec/nodeSelector"`
	return patched(workload, `{"op":"add",`+selector+`,"value":{"no":"where"}}`) +
		"kubectl -n kube-system wait --for=delete pod --timeout=40s " + managerPods + "\n" +
		meanwhile + patched(workload, `{"op":"remove",`+selector+`}`)
}

// oldSelector is that of manifests for kubeadm before 1.24.
func oldSelector(workload string) string {
	const master = `{"node-role.kubernetes.io/master":""}`
	return patched(workload, `{"op":"add","path":"/spec/template/spec/nodeSelector","value":`+master+`}`)
}

// secondLease lets a subject hold a Lease of its own.
func secondLease(subject string) string {
	return "kubectl -n kube-system create role second --verb=get,create,update --resource=leases.coordination.k8s.io\n" +
		"kubectl -n kube-system create rolebinding second --role=second " + subject + "\n"
}

// noSecondLease takes that back.
const noSecondLease = "kubectl -n kube-system delete role/second rolebinding/second lease/second"

// secondSet is a DaemonSet of the same program and account as the manager's, with a Lease and a port of its own. Image
// and command of a vendor's may have the DaemonSet's name.
func secondSet(name string) injected {
	return injected{
		id: "H2", what: "second manager with a Lease of its own",
		inject: secondLease("--serviceaccount=kube-system:"+name) +
			"kubectl -n kube-system get daemonset/" + name + " -o yaml | sed -e '/serviceAccount\\|image:\\|- .bin/!s/" + name + "/second/' " +
			"-e 's/10258/10268/' -e '/managed-by/d' " +
			"-e 's/--leader-elect=true/--leader-elect-resource-name=second\\n        - --secure-port=10268/' " +
			"-e '/^  uid:/d' -e '/resourceVersion/d' | kubectl create -f -",
		choice: "kubectl -n kube-system delete daemonset/second", undo: noSecondLease,
	}
}

// unrouted is what upstream's route controller writes when a cloud refuses.
const unrouted = `kubectl patch node cp1 --subresource=status -p '{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True",` +
	`"reason":"NoRouteCreated","message":"RouteController failed to create a route"}]}}'`

const (
	deletePods = "kubectl -n kube-system delete pod --wait=false " + managerPods + "\n"
	taintCP    = "kubectl taint node cp1 " + taint + "=true:NoSchedule\n"
)

// daemonSetFaults are those of a cluster with the provider onprem as a DaemonSet: cp1 and two workers.
func daemonSetFaults() [][]injected {
	return [][]injected{faultsOfPlacement(), faultsOfPods(), faultsOfTheWay()}
}

func faultsOfPlacement() []injected {
	return []injected{
		{
			id: "B1", what: "toleration of the uninitialized taint taken",
			inject: parked(managerSet, taintCP+withoutToleration(managerSet, "0", taint)),
		},
		{
			id: "B3", what: "toleration of the control plane's taint taken",
			inject: withoutToleration(managerSet, "1", controlPlane),
		},
		{id: "F3", what: "condition of a route that failed, and routes are off now", inject: unrouted},
		{id: "B4", what: "nodeSelector of kubeadm before 1.24", inject: oldSelector(managerSet)},
		{
			id: "B6", what: "Pod Security restricts kube-system",
			inject: "kubectl label namespace kube-system pod-security.kubernetes.io/enforce=restricted\n" + deletePods,
			undo:   "kubectl label namespace kube-system pod-security.kubernetes.io/enforce-",
		},
	}
}

func faultsOfPods() []injected {
	return []injected{
		{id: "W20", what: "DaemonSet deleted", inject: "kubectl -n kube-system delete " + managerSet},
		{id: "D15", what: "ServiceAccount deleted", inject: "kubectl -n kube-system delete serviceaccount onprem-cloud-controller-manager\n" + deletePods},
		{
			id: "D13", what: "ClusterRoleBinding for another ServiceAccount",
			inject: patched("clusterrolebinding/ccmadm:onprem", `{"op":"replace","path":"/subjects/0/name","value":"somebody-else"}`),
		},
		{
			id: "W25", what: "image of the DaemonSet that no registry has",
			inject: "kubectl -n kube-system set image " + managerSet + " cloud-controller-manager=registry.invalid/nothing:1",
		},
		{id: "B13", what: "argument of the DaemonSet that is gone", inject: argument("--address=0.0.0.0")},
		{id: "B14", what: "controller that is not known, in the DaemonSet", inject: argument("--controllers=cloud-nodes")},
		{
			id: "D1", what: "Secret that is not there, as a variable",
			inject: patched(managerSet, `{"op":"add","path":"/spec/template/spec/containers/0/envFrom","value":[{"secretRef":{"name":"cloud-token"}}]}`),
			choice: patched(managerSet, `{"op":"remove","path":"/spec/template/spec/containers/0/envFrom"}`),
		},
		secondSet("onprem-cloud-controller-manager"),
	}
}

func faultsOfTheWay() []injected {
	return []injected{
		{
			id: "C2", what: "the API server's Service is not served on the machine",
			inject: "nft add table ip hole; nft add chain ip hole output '{ type filter hook output priority -300; }'\n" +
				"nft add rule ip hole output ip daddr 10.96.0.1 tcp dport 443 reject with tcp reset\n" +
				"kubectl -n kube-system set env " + managerSet + " KUBERNETES_SERVICE_HOST- KUBERNETES_SERVICE_PORT-",
			undo: "nft delete table ip hole",
		},
	}
}

// deploymentFaults are those of the same cluster, once its manager is a Deployment.
func deploymentFaults() []injected {
	const deployment = "deployment/onprem-cloud-controller-manager"
	return []injected{
		{id: "W27", what: "Deployment scaled to 0", inject: "kubectl -n kube-system scale --replicas=0 " + deployment},
		{id: "B5", what: "more replicas than Nodes have ports for", inject: "kubectl -n kube-system scale --replicas=2 " + deployment},
		{
			id: "W22", what: "control plane cordoned, and the Deployment's pod gone: nobody holds the Lease",
			inject: "kubectl cordon cp1\n" + deletePods,
		},
	}
}

// TestFaults_DaemonSet is about what becomes of pods that a workload makes.
func TestFaults_DaemonSet(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "faultsds", daemonSetCluster, " --mode DaemonSet")
	l.all(t, daemonSetFaults()...)
	l.must(t, "cp1", strings.TrimSpace(cloudDocument+"'mode: Deployment' > /root/cloud.yaml; ccmadm apply -f /root/cloud.yaml"))
	l.cluster = deploymentCluster
	l.all(t, deploymentFaults())
	l.table.write(t, "daemonset", daemonSetCluster, l.cluster)
}
