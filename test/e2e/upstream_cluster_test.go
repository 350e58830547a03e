package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// upstreamClient is a router, and no Node. In a network behind it are the tests, as clients of a cluster are:
	// upstream takes an address of the Nodes' own network for one that was translated.
	upstreamClient   = "w4"
	upstreamNetwork  = "203.0.113.0/24"
	upstreamConfigOf = "/root/admin.conf"
	upstreamL2Pool   = "{apiVersion: ccmadm.dev/v1alpha1, kind: AddressPool, metadata: {name: upstream}, spec: {ranges: [%s-%s]}}\n"
	upstreamBGPPool  = "{apiVersion: ccmadm.dev/v1alpha1, kind: AddressPool, metadata: {name: upstream},\n" +
		" spec: {ranges: [192.0.2.32/27], level: BGP}}\n"
	upstreamRouter = "---\n{apiVersion: ccmadm.dev/v1alpha1, kind: BGPPeer, metadata: {name: router},\n" +
		" spec: {address: %s, asn: 64500, localASN: 64512}}\n"
	upstreamBehind = `ip netns add client; ip link add inner type veth peer name eth0 netns client; ip address add 203.0.113.1/24 dev inner
ip link set inner up; ip -n client address add 203.0.113.10/24 dev eth0; ip -n client link set eth0 up; ip -n client link set lo up
ip -n client route add default via 203.0.113.1; sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=0
sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0`
)

// upstreamCluster is a cluster by ccmadm with three workers, and a client behind a router.
type upstreamCluster struct {
	*lab

	machines []string // those of the cluster
}

func newUpstreamCluster(t *testing.T) *upstreamCluster {
	t.Helper()
	folder := strings.TrimSpace(labOutput(t, "upstream", *kubernetesMinor))
	images, err := filepath.Glob(filepath.Join(folder, "*.tar"))
	if err != nil || len(images) == 0 {
		t.Fatalf("images of the tests in %s: %v, error %v", folder, images, err)
	}
	flags := []string{"--image", agentImage}
	for _, archive := range images {
		flags = append(flags, "--image", archive)
	}
	c := &upstreamCluster{lab: up(t, "upstream", 1, 4, flags...), machines: []string{"cp1", "w1", "w2", "w3"}}
	for _, program := range []string{"e2e.test", "e2e_kubeadm.test", "ginkgo"} {
		c.lab.run(t, "cp", "--name", c.name, filepath.Join(folder, program), upstreamClient+":/usr/local/bin/"+program)
	}
	c.must(t, "cp1", "sed -i 's/^mode: nftables$/mode: "+*proxyMode+"/' "+kubeadmYAML)
	out := c.must(t, "cp1", ccmadmInit+" --node-agent --upload-certs")
	join := joinLine(t, out)
	for _, w := range c.machines[1:] {
		c.must(t, w, join)
	}
	c.lab.run(t, "network", "--name", c.name)
	c.kubectl(t, "wait --for=condition=Ready --timeout=240s node --all")
	c.kubectl(t, "-n kube-system rollout status deployment/coredns --timeout=240s")
	c.must(t, upstreamClient, upstreamBehind+"\ncat > "+upstreamConfigOf+" <<'END'\n"+
		c.must(t, "cp1", "cat /etc/kubernetes/admin.conf")+"END\n")
	for _, n := range c.machines {
		c.must(t, n, "ip route replace "+upstreamNetwork+" via "+c.address(t, upstreamClient))
		for _, archive := range images {
			c.tag(t, n, strings.TrimSuffix(archive, ".tar")+".names")
		}
	}
	return c
}

// tag gives an image the further names that tests know it by. The archive has the first one.
func (c *upstreamCluster) tag(t *testing.T, node, list string) {
	t.Helper()
	content, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(content))
	if len(names) < 2 {
		return
	}
	c.must(t, node, "ctr -n k8s.io images tag --force "+strings.Join(names, " ")+" >/dev/null")
}

// serve has the cluster's Services get their addresses in this way, and in no other.
func (c *upstreamCluster) serve(t *testing.T, level v1alpha1.Level) {
	t.Helper()
	c.kubectl(t, "delete addresspools,bgppeers --all --wait")
	c.sh(t, upstreamClient, "systemctl stop router")
	var objects string
	switch level {
	case v1alpha1.LevelL2:
		objects = fmt.Sprintf(upstreamL2Pool, c.inSubnet(t, 200), c.inSubnet(t, 240))
	case v1alpha1.LevelBGP:
		objects = upstreamBGPPool + fmt.Sprintf(upstreamRouter, c.address(t, upstreamClient))
		c.startBird(t, upstreamClient, "", c.machines...)
	default:
		return
	}
	c.apply(t, objects)
	c.kubectl(t, "wait --for=condition=Ready --timeout=60s addresspool/upstream")
}
