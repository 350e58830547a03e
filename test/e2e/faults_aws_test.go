package e2e

import (
	"strings"
	"testing"
)

const (
	awsCluster = "AWS's own manager, DaemonSet"
	awsRole    = "clusterrole/ccmadm:aws"
)

// awsFaults are those of AWS's own manager as a DaemonSet, on cp1 and w1, with its cloud and metadata service on w2.
func awsFaults() [][]injected {
	return [][]injected{faultsOfEC2(), faultsOfAWSObjects(), faultsOfVendorsPods("aws")}
}

func faultsOfEC2() []injected {
	deny, allow := inCloud(`s/"denied":false/"denied":true/`), inCloud(`s/"denied":true/"denied":false/`)
	revoke, restore := inCloud(`s/"key":"`+cloudKey+`"/"key":"OTHER"/`), inCloud(`s/"key":"OTHER"/"key":"`+cloudKey+`"/`)
	unnamed, named := inCloud(`s/"name":"w1"/"name":"other"/`), inCloud(`s/"name":"other"/"name":"w1"/`)
	untag, tag := inCloud(`s/"cluster":"lab"/"cluster":""/g`), inCloud(`s/"cluster":""/"cluster":"lab"/g`)
	const taintW1 = "kubectl taint node w1 " + taint + "=true:NoSchedule"
	return []injected{
		{
			id: "D3", what: "the instance's role may not describe instances", first: deny, inject: taintW1,
			choice: allow.command, choiceOn: cloudNode,
		},
		{
			id: "D3", what: "the access key was revoked", first: revoke, inject: taintW1,
			choice: restore.command, choiceOn: cloudNode,
		},
		{
			id: "W10", what: "EC2 has no instance of the Node's name (E1)", first: unnamed, inject: asNew("w1"),
			choice: named.command, choiceOn: cloudNode,
		},
		{
			id: "B17", what: "the tag of the cluster is gone from the instances", first: untag, inject: deletePods,
			choice: tag.command, choiceOn: cloudNode, undo: deletePods,
		},
		{
			id: "C4", what: "the metadata service is not reached",
			inject: "nft add table ip hole; nft add chain ip hole output '{ type filter hook output priority -300; }'\n" +
				"nft add rule ip hole output ip daddr 169.254.169.254 reject with icmp type admin-prohibited\n" + deletePods,
			choice: "nft delete table ip hole", undo: deletePods,
		},
	}
}

func faultsOfAWSObjects() []injected {
	return []injected{
		{id: "D13", what: "aws's manager may not list nodes", inject: without(awsRole, 0, "nodes", `"get","watch"`)},
		{id: "D8", what: "aws's manager may not update nodes", inject: without(awsRole, 1, "nodes", `"patch"`)},
		{id: "D6", what: "aws's manager may not update its Lease", inject: without("role/ccmadm:aws", 1, "leases", `"get"`)},
		{
			id: "D5", what: "aws's manager starts anew, and may not read how callers are authenticated",
			inject: "kubectl -n kube-system delete rolebinding ccmadm:aws:authentication-reader\n" + deletePods,
		},
		longLease("Lease of aws's manager that lasts an hour, of a holder that is no more"),
	}
}

// faultsOfVendorsPods are those of a DaemonSet of somebody's own program, with a Secret that has its configuration.
func faultsOfVendorsPods(vendor string) []injected {
	const secret = "secret/ccmadm-cloud-config"
	const save = "kubectl -n kube-system get " + secret + " -o yaml | grep -v -e resourceVersion -e ' uid:' > /root/secret.yaml\n"
	name := vendor + "-cloud-controller-manager"
	set := "daemonset/" + name
	return []injected{
		{
			id: "B1", what: vendor + "'s manager without toleration of the uninitialized taint",
			inject: parked(set, taintCP+withoutToleration(set, "0", taint)),
		},
		{id: "B4", what: vendor + "'s manager with a nodeSelector of kubeadm before 1.24", inject: oldSelector(set)},
		{
			id: "W25", what: "image of " + vendor + "'s manager that no registry has",
			inject: "kubectl -n kube-system set image " + set + " cloud-controller-manager=registry.invalid/nothing:1",
		},
		{
			id: "D1", what: "Secret with the cloud's configuration deleted",
			inject: save + "kubectl -n kube-system delete " + secret + "\n" + deletePods,
			choice: "kubectl create -f /root/secret.yaml",
		},
		{
			id: "D2", what: "key of the cloud's configuration gone from the Secret",
			inject: save + patched(secret, `{"op":"move","from":"/data/cloud.conf","path":"/data/other.conf"}`) + deletePods,
			choice: "kubectl replace --force -f /root/secret.yaml", undo: deletePods,
		},
		secondSet(name),
	}
}

// TestFaults_AWS has a vendor's own manager as the victim that the scheduler and the metadata service can fail, too.
func TestFaults_AWS(t *testing.T) {
	t.Parallel()
	l := &library{lab: up(t, "faultsaws", 1, 2), cluster: awsCluster, table: &faultTable{rows: map[string][]string{}}}
	l.loadCCM(t, "aws")
	state := cloudState{Region: "eu-central-1", Key: cloudKey}
	for i, node := range []string{"cp1", "w1"} {
		state.Machines = append(state.Machines, cloudMachine{
			ID: "i-0aaaaaaaaaaaaaaa" + string(rune('1'+i)), Name: node, Address: l.address(t, node), Zone: "eu-central-1a",
			Type: "t3.large", State: "running", Cluster: "lab",
		})
	}
	endpoint := "http://" + l.startCloud(t, state)
	l.configure(t, awsDocument, map[string]string{cloudConf: awsConfig(endpoint)})
	l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1)+" --mode DaemonSet")
	l.must(t, "w1", l.joinCommand(t))
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1")
	l.all(t, awsFaults()...)
	l.table.write(t, "aws", l.cluster)
}
