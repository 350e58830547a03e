package e2e

import (
	"strings"
	"testing"
	"time"
)

const (
	awsDocument    = "provider: aws\ncloudConfig: {file: " + cloudConf + "}\n"
	awsKeys        = "credentials: [{key: credentials, file: /tmp/credentials}]\n"
	awsCredentials = "[default]\naws_access_key_id = " + cloudKey + "\naws_secret_access_key = secret\n"
)

// awsConfig sends the calls to EC2 to the test's own cloud.
func awsConfig(endpoint string) string {
	return `[Global]
[ServiceOverride "1"]
Service = EC2
Region = eu-central-1
URL = ` + endpoint + `/
SigningRegion = eu-central-1
SigningName = ec2
`
}

// privateDNS is how EC2 names a machine by its address; kubelets there must use the same name.
func privateDNS(address string) string {
	return "ip-" + strings.ReplaceAll(address, ".", "-") + ".eu-central-1.compute.internal"
}

// TestRealCCM_AWS: the controller manager of k8s.io/cloud-provider-aws takes machines from tainted to initialized, and
// its mistakes-to-be cost no node.
func TestRealCCM_AWS(t *testing.T) {
	t.Parallel()
	l := up(t, "aws", 1, 2)
	l.loadCCM(t, "aws")
	cp, w := l.address(t, "cp1"), l.address(t, "w1")
	// EC2 names machines by their address or by their ID: both are there.
	const wName = "i-0aaaaaaaaaaaaaaa2"
	state := cloudState{Region: "eu-central-1", Key: cloudKey, Machines: []cloudMachine{
		{ID: "i-0aaaaaaaaaaaaaaa1", Name: privateDNS(cp), Address: cp, Zone: "eu-central-1a", Type: "t3.large", State: "running", Cluster: "lab"},
		{ID: wName, Name: wName, Address: w, Zone: "eu-central-1b", Type: "t3.small", State: "running", Cluster: "lab"},
	}}
	endpoint := "http://" + l.startCloud(t, state)
	l.configure(t, awsDocument+awsKeys, map[string]string{cloudConf: awsConfig(endpoint), "/tmp/credentials": awsCredentials})
	initCommand := strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1) + " --node-name "
	wantCP := wantNode{"aws:///eu-central-1a/i-0aaaaaaaaaaaaaaa1", "eu-central-1a", "eu-central-1", "t3.large", cp}

	t.Run("a name that EC2 does not know is refused", func(t *testing.T) {
		if r := l.sh(t, "cp1", initCommand+"cp1"); r.code != 3 || !strings.Contains(r.out, privateDNS(cp)) {
			t.Errorf("exit status %d, want 3 and the right name\n%s", r.code, r.out)
		}
	})
	const warning = "warning, node IP "
	t.Run("an address that EC2 may not list is warned of", func(t *testing.T) {
		l.must(t, "cp1", "ip address add 198.18.99.1/32 dev lo")
		l.configure(t, awsDocument+awsKeys+"nodeIP: 198.18.99.1\n", nil)
		out := l.must(t, "cp1", strings.Replace(initCommand, "init", "init phase preflight", 1)+privateDNS(cp))
		if !strings.Contains(out, warning+"198.18.99.1: provider aws knows this machine at "+cp) {
			t.Errorf("no warning in\n%s", out)
		}
		l.configure(t, awsDocument+awsKeys, nil)
		l.must(t, "cp1", "ip address del 198.18.99.1/32 dev lo")
	})
	start := time.Now()
	out := l.must(t, "cp1", initCommand+privateDNS(cp))
	if strings.Contains(out, warning) {
		t.Errorf("the machine's own address is warned of\n%s", ours(out))
	}
	t.Logf("ccmadm init took %.1f s:\n%s", time.Since(start).Seconds(), ours(out))
	l.expectNode(t, privateDNS(cp), wantCP)

	t.Run("an API that refuses costs no node, and is named as the reason", func(t *testing.T) {
		refusing := state
		refusing.Denied = true
		l.setCloud(t, refusing)
		r := l.sh(t, "w1", l.joinCommand(t)+" --node-name "+wName+" --timeout 8s")
		if r.code != 4 {
			t.Errorf("exit status of join %d, want 4\n%s", r.code, r.out)
		}
		// The reason is the manager's: it is there once the manager has asked, which on a busy machine takes a while.
		eventually(t, 90*time.Second, "wait ends with status 4 and names the reason", func() bool {
			r = l.sh(t, "cp1", "ccmadm wait "+wName+" --timeout 5s")
			return r.code == 4 && strings.Contains(r.out, "UnauthorizedOperation")
		})
		// Without a CNI both nodes are NotReady, so the lifecycle controller asks about both every few seconds.
		before := l.asked(t, "ec2 DescribeInstances")
		eventually(t, time.Minute, "the cloud was asked six more times", func() bool { return l.asked(t, "ec2 DescribeInstances") >= before+6 })
		if nodes := l.nodesNow(t); len(nodes) != 2 {
			t.Errorf("%d nodes are left of 2", len(nodes))
		}
	})
	l.setCloud(t, state)
	t.Run("a worker is initialized as soon as the API answers", func(t *testing.T) {
		l.must(t, "cp1", "ccmadm wait "+wName+" --timeout 120s")
		l.expectNode(t, wName, wantNode{"aws:///eu-central-1b/" + wName, "eu-central-1b", "eu-central-1", "t3.small", w})
		l.expectNothingForbiddenInLog(t)
	})
	t.Run("the node of a terminated instance goes, and no other", func(t *testing.T) {
		l.run(t, "kill", "--name", l.name, "w1")
		state.Machines[1].State = "terminated"
		l.setCloud(t, state)
		eventually(t, 90*time.Second, "the node of w1 goes", func() bool { _, there := l.nodesNow(t)[wName]; return !there })
		l.expectNode(t, privateDNS(cp), wantCP)
	})
	t.Run("as a DaemonSet, with the credentials of its machine", func(t *testing.T) {
		l.wipe(t, "cp1")
		l.configure(t, awsDocument, nil)
		t.Logf("%s", ours(l.must(t, "cp1", initCommand+privateDNS(cp)+" --mode DaemonSet")))
		l.expectNode(t, privateDNS(cp), wantCP)
		l.expectNothingForbiddenInLog(t)
		if l.asked(t, "security-credentials/nodes") == 0 {
			t.Error("nobody has asked for the machine's credentials")
		}
	})
}
