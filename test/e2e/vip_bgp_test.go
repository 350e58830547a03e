package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// announcedVIP is the control plane's address by BGP, which no machine's subnet has.
const announcedVIP = "192.0.2.60"

// fabricCluster has three control planes that announce their address to a router, which is the worker, too, and where
// the client is.
type fabricCluster struct {
	*lab

	client *onlooker
	init   string
	joins  map[string]string // by machine
}

func fabricUp(t *testing.T) *fabricCluster {
	t.Helper()
	c := &fabricCluster{lab: up(t, "vipbgp", 3, 1, "--image", agentImage, "--binary", buildProgram(t, "prober"))}
	t.Cleanup(func() {
		for _, m := range c.nodes {
			if t.Failed() {
				t.Logf("%s:\n%s", m, c.sh(t, m, "ip -br address; ip route show "+announcedVIP+"; birdc show protocols all;"+
					"cat /var/log/pods/kube-system_ccmadm-vip*/vip/*.log | tail -n 60").out)
			}
		}
	})
	controlPlanes := []string{"cp1", "cp2", "cp3"}
	for _, m := range controlPlanes {
		c.byRouter(t, m)
	}
	c.must(t, "w1", "sysctl -qw net.ipv4.fib_multipath_hash_policy=1; sysctl -qw net.ipv4.conf.{all,eth0}.send_redirects=0")
	c.startBird(t, "w1", "bfd on;", controlPlanes...)
	c.init = strings.Replace(ccmadmInit, kubeadmYAML, "/root/bgp.yaml", 1) + " --upload-certs"
	c.configure(t, announcedVIP)
	return c
}

// byRouter has a machine ask the router for the address, as its default route would in a fabric.
func (c *fabricCluster) byRouter(t *testing.T, machine string) {
	t.Helper()
	c.must(t, machine, "ip route replace "+announcedVIP+" via "+c.address(t, "w1"))
}

// configure says on cp1 which address is announced, and to whom.
func (c *fabricCluster) configure(t *testing.T, address string) {
	t.Helper()
	c.must(t, "cp1", "(cat "+kubeadmYAML+"; cat <<'END'\n---\napiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"+
		"controlPlaneVIP:\n  address: "+address+"\n  bgp:\n    localASN: 64512\n    peers:\n"+
		"    - {address: "+c.address(t, "w1")+", asn: 64500, bfd: {enabled: true, interval: 100ms}}\nEND\n) > /root/bgp.yaml")
}

// hops waits until the router sends to these control planes and to no others.
func (c *fabricCluster) hops(t *testing.T, machines ...string) {
	t.Helper()
	eventually(t, 2*time.Minute, fmt.Sprintf("the router sends to %v", machines), func() bool {
		routes := c.sh(t, "w1", "ip route show "+announcedVIP).out
		for _, m := range machines {
			if !strings.Contains(routes, "via "+c.address(t, m)+" ") {
				return false
			}
		}
		return strings.Count(routes, "via ") == len(machines)
	})
}

// loses does something, waits until the router sends to these machines only, and wants the client to be without an
// answer for no longer than limit.
func (c *fabricCluster) loses(t *testing.T, what string, limit time.Duration, do func(), left ...string) {
	t.Helper()
	begun := time.Now()
	do()
	c.hops(t, left...)
	time.Sleep(3 * time.Second) // the client is content until it has noticed
	f := c.client.figures(begun, time.Now().Add(-time.Second))
	t.Logf("%s: %.3f s, lost %d of %d", what, f.outage.Seconds(), f.lost, f.tried)
	if f.outage > limit {
		t.Errorf("%s: %s without an answer, which is more than %s", what, f.outage, limit)
	}
}

func (c *fabricCluster) holds(t *testing.T, machine string) bool {
	t.Helper()
	return c.sh(t, machine, "ip -o address show dev lo | grep -wF "+announcedVIP).code == 0
}

// form makes the cluster; each control plane joins by way of those that are there.
func (c *fabricCluster) form(t *testing.T) {
	t.Helper()
	out := c.must(t, "cp1", c.init)
	c.hops(t, "cp1")
	c.client = c.probe(t, "BGP", "w1", announcedVIP+":6443")
	join := joinLine(t, out)
	if !strings.Contains(join, " "+announcedVIP+":6443 ") {
		t.Errorf("machines are told to join by %q", join)
	}
	c.joins = map[string]string{"w1": join}
	begun := time.Now()
	for _, m := range []string{"cp2", "cp3"} {
		c.joins[m] = join + " --control-plane --certificate-key " + certificateKey(out)
		c.must(t, m, c.joins[m])
	}
	c.must(t, "w1", c.joins["w1"])
	f := c.client.figures(begun, time.Now().Add(-time.Second))
	t.Logf("joins: %.3f s, lost %d of %d", f.outage.Seconds(), f.lost, f.tried)
	if f.outage > 10*time.Second {
		t.Errorf("nobody answered for %s while machines joined", f.outage)
	}
	c.hops(t, "cp1", "cp2", "cp3")
}

// TestControlPlaneVIP_BGP: three control planes announce their endpoint to a router. Each whose API server stops, whose
// pod is killed, that loses its power or is reset has no more connections, and the others have them.
func TestControlPlaneVIP_BGP(t *testing.T) {
	t.Parallel()
	c := fabricUp(t)
	t.Run("an address of the machines' subnet is refused", func(t *testing.T) { c.expectRefused(t) })
	c.form(t)
	t.Run("a second run changes nothing", func(t *testing.T) { c.expectUnchanged(t) })
	record := c.kubectl(t, "-n kube-system get configmap ccmadm-config -o yaml")
	if !strings.Contains(record, "localASN: 64512") {
		t.Errorf("the record has no routers:\n%s", record)
	}
	c.loses(t, "API server stopped", 5*time.Second, func() {
		c.must(t, "cp2", "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && pkill -9 kube-apiserver")
	}, "cp1", "cp3")
	if c.holds(t, "cp2") {
		t.Error("cp2 has no API server, and the address on lo")
	}
	c.must(t, "cp2", admin+"get nodes") // by the others'
	c.loses(t, "API server back", time.Second, func() {
		c.must(t, "cp2", "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/")
	}, "cp1", "cp2", "cp3")
	c.loses(t, "pod killed", time.Second, func() { c.must(t, "cp3", "pkill -9 node-agent") }, "cp1", "cp2", "cp3")
	c.loses(t, "power cut", 5*time.Second, func() { c.run(t, "kill", "--name", c.name, "cp1") }, "cp2", "cp3")
	// A machine that boots on few processors may keep the others from sending BFD in time.
	c.loses(t, "machine back", 10*time.Second, func() {
		c.run(t, "start", "--name", c.name, "cp1")
		c.byRouter(t, "cp1")
	}, "cp1", "cp2", "cp3")
	c.loses(t, "reset", 5*time.Second, func() { c.must(t, "cp3", "ccmadm reset --force") }, "cp1", "cp2")
	if c.holds(t, "cp3") {
		t.Error("cp3 was reset, and has the address on lo")
	}
}

func (c *fabricCluster) expectRefused(t *testing.T) {
	t.Helper()
	inside := c.inSubnet(t, 200).String()
	c.configure(t, inside)
	before := c.must(t, "cp1", keptFiles)
	r := c.sh(t, "cp1", c.init)
	want := "controlPlaneVIP.address " + inside + ": it is in the subnet of eth0"
	if r.code == 0 || !strings.Contains(r.out, want) {
		t.Errorf("exit status %d, want an error and %q\n%s", r.code, want, r.out)
	}
	if diff := cmp.Diff(before, c.must(t, "cp1", keptFiles)); diff != "" {
		t.Errorf("the machine was changed (-before +after):\n%s", diff)
	}
	c.configure(t, announcedVIP)
}

func (c *fabricCluster) expectUnchanged(t *testing.T) {
	t.Helper()
	for m, command := range map[string]string{"cp1": c.init, "cp2": c.joins["cp2"]} {
		before := c.must(t, m, keptFiles)
		out := c.must(t, m, command)
		if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(c.must(t, m, keptFiles), "\n")); diff != "" {
			t.Errorf("%s: a second run has changed files (-before +after):\n%s\n%s", m, diff, out)
		}
	}
}
