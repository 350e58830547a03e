package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// vipCluster has the control plane's own address: three control planes, and a worker on which a client runs.
type vipCluster struct {
	*lab

	address netip.Addr
	client  *onlooker
	joins   map[string]string // by machine
}

// vipUp boots the machines. The address is nobody's.
func vipUp(t *testing.T, name string) *vipCluster {
	t.Helper()
	l := up(t, name, 3, 1, "--image", agentImage, "--binary", buildProgram(t, "prober"))
	c := &vipCluster{lab: l, address: l.inSubnet(t, 200), joins: map[string]string{}}
	t.Cleanup(func() {
		for _, m := range c.nodes {
			if t.Failed() {
				t.Logf("%s:\n%s", m, l.sh(t, m, "ip -br address; cat /etc/ccmadm/vip/members.json /var/log/pods/kube-system_ccmadm-vip*/vip/*.log").out)
			}
		}
	})
	return c
}

func (c *vipCluster) initCommand() string {
	return ccmadmInit + " --upload-certs --control-plane-vip " + c.address.String()
}

// form makes the cluster. It begins on cp2: the first one is not the first by its name.
func (c *vipCluster) form(t *testing.T) {
	t.Helper()
	out := c.must(t, "cp2", c.initCommand())
	c.client = c.probe(t, "VIP", "w1", c.address.String()+":6443", "eth0")
	join := joinLine(t, out)
	if !strings.Contains(join, " "+c.address.String()+":6443 ") {
		t.Errorf("machines are told to join by %q", join)
	}
	for _, m := range []string{"cp1", "cp3"} {
		c.joins[m] = join + " --control-plane --certificate-key " + certificateKey(out)
	}
	c.joins["w1"] = join
	begun := time.Now()
	late := make(chan struct{})
	go func() {
		defer close(late)
		c.beLate(t, "cp2")
	}()
	c.must(t, "cp1", c.joins["cp1"])
	<-late
	eventually(t, 10*time.Second, "cp2 has noticed that its API server was late, and is back", func() bool {
		return c.sh(t, "cp2", "test $(cat /var/log/pods/kube-system_ccmadm-vip*/vip/*.log | grep -c healthy=true) -gt 1").code == 0
	})
	for _, m := range []string{"cp3", "w1"} { // one after the other, as etcd wants it
		c.must(t, m, c.joins[m])
	}
	f := c.client.figures(begun, time.Now().Add(-time.Second))
	t.Logf("joins: %.3f s, lost %d of %d", f.outage.Seconds(), f.lost, f.tried)
	if f.outage > 5*time.Second {
		t.Errorf("nobody answered for %s while machines joined", f.outage)
	}
	c.steady(t, "cp1", "cp2", "cp3")
}

// beLate stops a machine's API server for longer than its pod waits for an answer, and lets it go on, as on a machine
// that has too much to do.
func (c *vipCluster) beLate(t *testing.T, machine string) {
	t.Helper()
	time.Sleep(2 * time.Second)
	c.sh(t, machine, "pkill -STOP kube-apiserver; sleep 4.5; pkill -CONT kube-apiserver")
}

// steady waits until the API servers of these machines answer, which is when the address is on their lo, and the client
// is content.
func (c *vipCluster) steady(t *testing.T, machines ...string) {
	t.Helper()
	eventually(t, 2*time.Minute, fmt.Sprintf("the API servers of %v answer, and the address does", machines), func() bool {
		return c.content() && !slices.ContainsFunc(machines, func(m string) bool { return !c.holds(t, m) })
	})
}

// holds says whether the address is on the machine's lo.
func (c *vipCluster) holds(t *testing.T, machine string) bool {
	t.Helper()
	return c.sh(t, machine, "ip -o address show dev lo | grep -wF "+c.address.String()).code == 0
}

// moves does something to the owner, expects the address elsewhere in time, and returns who had it and who has it now.
func (c *vipCluster) moves(t *testing.T, what string, limit time.Duration, do func(owner string)) (before, after string) {
	t.Helper()
	mac := c.client.owner()
	before = c.machineOf(t, mac)
	begun := time.Now()
	do(before)
	time.Sleep(4*time.Second - min(time.Since(begun), 4*time.Second)) // the client is content until it has noticed
	eventually(t, time.Minute, what+": another machine answers", func() bool { return c.client.owner() != mac && c.content() })
	f := c.client.figures(begun, time.Now().Add(-time.Second))
	after = c.machineOf(t, c.client.owner())
	t.Logf("%s: from %s to %s, %.3f s, lost %d of %d", what, before, after, f.outage.Seconds(), f.lost, f.tried)
	if f.outage > limit {
		t.Errorf("%s: %s without an answer, which is more than %s", what, f.outage, limit)
	}
	return before, after
}

// content says whether the client has seen nothing fail for a second. What has begun since may still wait.
func (c *vipCluster) content() bool {
	f := c.client.figures(time.Now().Add(-2*time.Second), time.Now().Add(-time.Second))
	return f.lost == 0 && f.tried > 10
}

// stays expects that the address does not move while something is done, unless its owner's own API server was late
// meanwhile: on few processors a machine that boots may have that effect on the others.
func (c *vipCluster) stays(t *testing.T, what, owner string, do func()) {
	t.Helper()
	before := c.late(t, owner)
	do()
	time.Sleep(2 * time.Second)
	switch now := c.machineOf(t, c.client.owner()); {
	case now == owner:
	case c.late(t, owner) > before:
		t.Logf("%s: the API server of %s was late, and the address is on %s", what, owner, now)
	default:
		t.Errorf("%s: the address has moved from %s to %s", what, owner, now)
	}
}

// late counts how often the address's pod on a machine has found its API server wanting.
func (c *vipCluster) late(t *testing.T, machine string) int {
	t.Helper()
	out := c.must(t, machine, "cat /var/log/pods/kube-system_ccmadm-vip*/vip/*.log")
	return strings.Count(out, "healthy=false")
}

// TestControlPlaneVIP: three control planes whose endpoint is an address of their own. It goes on answering when the
// API server of its owner stops, the owner loses its power, or is reset; and two machines never answer for it.
func TestControlPlaneVIP(t *testing.T) {
	t.Parallel()
	c := vipUp(t, "vip")
	t.Run("an address that somebody has is refused", func(t *testing.T) { c.expectRefused(t) })
	c.form(t)
	formed := time.Now()
	t.Run("endpoint and certificates", func(t *testing.T) { c.expectEndpoint(t) })
	t.Run("a second run changes nothing", func(t *testing.T) { c.expectUnchanged(t) })

	owner, next := c.moves(t, "API server stopped", 5*time.Second, func(owner string) {
		c.must(t, owner, "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && pkill -9 kube-apiserver")
	})
	if c.holds(t, owner) {
		t.Errorf("%s has no API server, and the address on lo", owner)
	}
	c.must(t, owner, admin+"get nodes") // by the other one's
	c.stays(t, "API server back", next, func() {
		c.must(t, owner, "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/")
		c.steady(t, "cp1", "cp2", "cp3")
	})

	owner, next = c.moves(t, "power cut", 10*time.Second, func(owner string) { c.run(t, "kill", "--name", c.name, owner) })
	c.stays(t, "machine back", next, func() {
		c.run(t, "start", "--name", c.name, owner)
		c.steady(t, "cp1", "cp2", "cp3")
	})

	owner, next = c.moves(t, "reset", 5*time.Second, func(owner string) { c.must(t, owner, "ccmadm reset --force") })
	if c.holds(t, owner) {
		t.Errorf("%s was reset, and has the address", owner)
	}
	c.must(t, next, admin+"delete node "+owner)
	if f := c.client.figures(formed, time.Now()); f.double > 0 {
		t.Errorf("two machines claimed the address for %s", f.double)
	}
}

// expectRefused gives the address to another machine first.
func (c *vipCluster) expectRefused(t *testing.T) {
	t.Helper()
	c.must(t, "w1", "ip address add "+c.address.String()+"/24 dev eth0")
	before := c.must(t, "cp2", keptFiles)
	mac := strings.TrimSpace(c.must(t, "w1", "cat /sys/class/net/eth0/address"))
	r := c.sh(t, "cp2", c.initCommand())
	if want := "controlPlaneVIP.address " + c.address.String() + ": " + mac + " answers for it on eth0"; r.code == 0 || !strings.Contains(r.out, want) {
		t.Errorf("exit status %d, want an error and %q\n%s", r.code, want, r.out)
	}
	if diff := cmp.Diff(before, c.must(t, "cp2", keptFiles)); diff != "" || c.holds(t, "cp2") {
		t.Errorf("the machine was changed (-before +after):\n%s", diff)
	}
	c.must(t, "w1", "ip address delete "+c.address.String()+"/24 dev eth0")
}

// expectEndpoint: what kubeadm has made says the address, wherever it does not say this machine's own API server.
func (c *vipCluster) expectEndpoint(t *testing.T) {
	t.Helper()
	endpoint := c.address.String() + ":6443"
	for _, at := range []struct{ machine, script, want string }{
		{"w1", "cat /etc/kubernetes/kubelet.conf", "server: https://" + endpoint},
		{"cp1", "cat /etc/kubernetes/admin.conf", "server: https://" + endpoint},
		{"cp3", admin + "-n kube-public get configmap cluster-info -o yaml", "server: https://" + endpoint},
		{"cp3", admin + "-n kube-system get configmap kubeadm-config -o yaml", "controlPlaneEndpoint: " + endpoint},
		{"cp3", "openssl x509 -in /etc/kubernetes/pki/apiserver.crt -noout -ext subjectAltName", "IP Address:" + c.address.String()},
	} {
		if got := c.must(t, at.machine, at.script); !strings.Contains(got, at.want) {
			t.Errorf("%s: %s has no %q:\n%s", at.machine, at.script, at.want, got)
		}
	}
	// One of them is the oldest for all: names do not say which.
	for _, m := range []string{"cp1", "cp2", "cp3"} {
		const oldestFirst = `^\[{"name":"cp2",.*"cp1".*"cp3",[^{]*}\]$`
		eventually(t, 10*time.Second, m+" knows all three", func() bool {
			return c.sh(t, m, "grep -x '"+oldestFirst+"' /etc/ccmadm/vip/members.json").code == 0
		})
	}
}

func (c *vipCluster) expectUnchanged(t *testing.T) {
	t.Helper()
	for m, command := range map[string]string{"cp2": c.initCommand(), "cp1": c.joins["cp1"]} {
		before := c.must(t, m, keptFiles)
		out := c.must(t, m, command)
		if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(c.must(t, m, keptFiles), "\n")); diff != "" {
			t.Errorf("%s: a second run has changed files (-before +after):\n%s\n%s", m, diff, out)
		}
	}
}
