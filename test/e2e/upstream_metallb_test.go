package e2e

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

//go:embed metallb-router.sh
var metallbRouter string

//go:embed metallb-ip.py
var metallbIP string

const (
	// metallbClient is no Node. It is in the Nodes' network, as MetalLB's tests want it, and it is their BGP router.
	metallbClient   = "w4"
	metallbReports  = "/root/metallb"
	metallbPatience = 170 * time.Minute
	// metallbSecondNIC is in a network of its own, for tests that choose between interfaces.
	metallbSecondNIC = `ip link add lan2 type vxlan id 2 local %[2]s dstport 4789; ip link set lan2 up
ip address add 198.51.100.%[1]d/24 dev lan2; ip address add fd00:51::%[1]d/64 dev lan2 nodad
for other in %[3]s; do bridge fdb append 00:00:00:00:00:00 dev lan2 dst $other; done`
	// metallbStandingPool gives nothing. Without any AddressPool, Services have the Nodes' addresses, and with MetalLB none.
	metallbStandingPool = "{apiVersion: ccmadm.dev/v1alpha1, kind: AddressPool, metadata: {name: standing},\n" +
		" spec: {ranges: [192.0.2.254], autoAssign: false}}\n"
	// metallbFRR is Debian's FRR, set up as the tests' own container of it.
	metallbFRR = `cd /tmp/packages; for list in '*python3.11-minimal_*' 'python3-minimal_*' '*'; do
  dpkg --force-confold -i $list.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; exit 1; }
done
printf '%s\n' bgpd=yes bfdd=yes vtysh_enable=yes 'zebra_options="-A 127.0.0.1 -s 90000000"' 'bgpd_options="-A 127.0.0.1"' \
  'bfdd_options="-A 127.0.0.1"' > /etc/frr/daemons
echo 'service integrated-vtysh-config' > /etc/frr/vtysh.conf; : > /etc/frr/frr.conf; chown frr:frr /etc/frr/*
rm -f /etc/systemd/system/frr.service; systemctl daemon-reload; systemctl restart frr
timeout 60 bash -c "until vtysh -c 'show daemons' | grep bgpd | grep -q bfdd; do sleep 0.2; done" # each start removes bgpd.conf
: > /etc/frr/bgpd.conf; chown frr:frr /etc/frr/bgpd.conf`
	metallbRun = `rm -rf %[1]s; mkdir -p %[1]s; cd %[1]s; ln -s /etc/frr ebgp-single-hop; cat > run <<'END'
#!/bin/bash
cd %[1]s && exec metallb.test --ginkgo.v --ginkgo.no-color --ginkgo.timeout=%[2]s --ginkgo.focus='%[3]s' --ginkgo.skip='%[4]s' \
  --ginkgo.junit-report=%[1]s/report.xml --provider=local --external-containers=ebgp-single-hop --bgp-native-mode=true \
  --ipv4-service-range=%[5]s --ipv6-service-range=%[6]s --node-nics=eth0,lan2 --local-nics=eth0,lan2 > %[1]s/log 2>&1
END
chmod 755 run; systemctl reset-failed suite translator 2>/dev/null; systemctl stop translator 2>/dev/null
systemd-run --quiet --collect --unit translator -p StandardOutput=append:%[1]s/translator.log \
  -p StandardError=append:%[1]s/translator.log translator %[7]s eth0
systemd-run --quiet --unit suite --setenv=HOME=/root --setenv=KUBECONFIG=%[7]s --setenv=ROUTER_IPV4=%[8]s --setenv=ROUTER_IPV6=%[9]s ./run`
)

// TestUpstreamMetalLB runs MetalLB's own end-to-end tests against ccmadm, and writes the rows of
// docs/contributing/metallb-tests.md. They are unchanged; the program translator turns MetalLB's objects into ours.
func TestUpstreamMetalLB(t *testing.T) {
	for _, family := range []string{"dual", "ipv6"} {
		t.Run(family, func(t *testing.T) {
			c := newMetalLBCluster(t, family)
			focus, skip := *metallbFocus, []string{"IPV6"}
			if family == "ipv6" {
				focus, skip = "IPV6.*"+focus, nil
			}
			for _, r := range slices.Concat(metallbApart(), metallbLeft()) {
				skip = append(skip, r.tests)
			}
			c.judge(t, family, c.suite(t, focus, strings.Join(skip, "|")))
		})
	}
}

// metallbCluster is a cluster by ccmadm with three workers, and a client with a router.
type metallbCluster struct {
	*lab

	ipv4, ipv6 string // of the client, and so of the router
}

func newMetalLBCluster(t *testing.T, family string) *metallbCluster {
	t.Helper()
	folder := strings.TrimSpace(labOutput(t, "metallb-tests"))
	packages := strings.TrimSpace(labOutput(t, "packages", "frr", "frr-pythontools", "ndisc6", "iputils-arping", "iputils-ping", "wget"))
	c := &metallbCluster{lab: up(t, "metallb-"+family, 1, 4, "--ip-family", family, "--image", agentImage,
		"--image", filepath.Join(folder, "agnhost.tar"))}
	for address := range strings.FieldsSeq(c.must(t, metallbClient, "hostname -I")) {
		if strings.Contains(address, ":") {
			c.ipv6 = address
		} else {
			c.ipv4 = address
		}
	}
	c.must(t, "cp1", ccmadmInit+" --node-agent --upload-certs")
	join := c.joinCommand(t)
	for _, w := range []string{"w1", "w2", "w3"} {
		c.must(t, w, join)
	}
	c.run(t, "network", "--name", c.name)
	c.kubectl(t, "wait --for=condition=Ready --timeout=240s node --all")
	c.kubectl(t, "-n kube-system rollout status deployment/coredns --timeout=240s")
	c.plugIn(t)
	for from, to := range map[string]string{
		filepath.Join(folder, "crds"): "cp1:/tmp/crds", filepath.Join(folder, "metallb.test"): metallbClient + ":/usr/local/bin/metallb.test",
		buildProgram(t, "translator"): metallbClient + ":/usr/local/bin/translator", packages: metallbClient + ":/tmp/packages",
	} {
		c.run(t, "cp", "--name", c.name, from, to)
	}
	// Kubernetes 1.36 refuses numbers of autonomous systems beyond 32 signed bits, which these CRDs declare and the tests use.
	c.must(t, "cp1", "sed -i '/format: int32/d' /tmp/crds/metallb.io_bgppeers.yaml")
	c.kubectl(t, "apply -f /tmp/crds")
	c.kubectl(t, "create namespace metallb-system")
	c.apply(t, metallbStandingPool)
	config := c.must(t, "cp1", "cat /etc/kubernetes/admin.conf")
	for path, content := range map[string]string{
		"/usr/local/bin/docker": metallbRouter, "/usr/local/bin/ip": metallbIP, upstreamConfigOf: config,
	} {
		c.must(t, metallbClient, "install -m 755 /dev/null "+path+"; cat > "+path+" <<'END'\n"+content+"END\n")
	}
	c.must(t, metallbClient, metallbFRR)
	return c
}

// plugIn gives every machine its second interface.
func (c *metallbCluster) plugIn(t *testing.T) {
	t.Helper()
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, c.address(t, n))
	}
	for i, n := range c.nodes {
		others := strings.Join(slices.Delete(slices.Clone(addresses), i, i+1), " ")
		c.must(t, n, fmt.Sprintf(metallbSecondNIC, 10+i, addresses[i], others))
	}
}

// suite runs what matches focus and not skip, and returns the report.
func (c *metallbCluster) suite(t *testing.T, focus, skip string) string {
	t.Helper()
	first, last := netip.MustParseAddr(c.ipv6).As16(), netip.MustParseAddr(c.ipv6).As16()
	first[15], last[15] = 0xc8, 0xf0
	range6 := fmt.Sprintf("%s-%s", netip.AddrFrom16(first), netip.AddrFrom16(last))
	range4, router := "192.168.0.200-192.168.0.240", "192.0.2.1" // an IPv6 cluster has no use for these, and the suite wants them
	if c.ipv4 != "" {
		range4, router = fmt.Sprintf("%s-%s", c.inSubnet(t, 200), c.inSubnet(t, 240)), c.ipv4
	}
	c.must(t, metallbClient, fmt.Sprintf(metallbRun, metallbReports, metallbPatience, focus, skip, range4, range6,
		upstreamConfigOf, router, c.ipv6))
	eventually(t, metallbPatience, "MetalLB's tests end", func() bool {
		time.Sleep(2 * time.Second)
		state := strings.TrimSpace(c.sh(t, metallbClient, "systemctl is-active suite").out)
		return state != "active" && state != "activating"
	})
	report := c.sh(t, metallbClient, "cat "+metallbReports+"/report.xml")
	if report.code != 0 {
		t.Fatalf("no report:\n%s", c.sh(t, metallbClient, "journalctl -u suite --no-pager -n 20; tail -n 60 "+metallbReports+"/log").out)
	}
	return report.out
}

// judge fails for what failed without a known reason, and writes a row for each test.
func (c *metallbCluster) judge(t *testing.T, family, report string) {
	t.Helper()
	var read junit
	if err := xml.Unmarshal([]byte(report), &read); err != nil {
		t.Fatalf("read report: %v", err)
	}
	var rows strings.Builder
	counts := map[string]int{}
	for _, test := range read.Cases {
		name := strings.TrimPrefix(test.Name, "[It] ")
		outcome, why := metallbOutcome(name, test.Status, family)
		switch {
		case name == test.Name && (test.Status == "passed" || test.Status == "skipped"), outcome == "":
			continue
		case outcome == "failed" && why == "":
			why = "**not explained**"
			message := test.Status
			if test.Failure != nil {
				message = test.Failure.Message
			}
			t.Errorf("%s: %s", name, message)
		}
		counts[outcome]++
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", cell(name), outcome, why)
	}
	t.Log(counts)
	if counts["passed"] == 0 {
		t.Error("no test passed")
	}
	if t.Failed() {
		t.Log(c.sh(t, metallbClient, "tail -n 60 "+metallbReports+"/translator.log").out)
		t.Log(c.sh(t, metallbClient, fmt.Sprintf("grep -anF -A30 -e '[FAILED]' %s/log | head -n 400", metallbReports)).out)
	}
	if err := os.WriteFile(measuredFile(t, "metallb-tests-"+family+".rows"), []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// metallbOutcome is what a run has to say of a test: nothing, if the run of the other family has it.
func metallbOutcome(name, status, family string) (outcome, why string) {
	apart, left := because(metallbApart(), name), because(metallbLeft(), name)
	elsewhere := strings.Contains(name, "IPV6") != (family == "ipv6")
	switch {
	case elsewhere:
		return "", ""
	case apart != "":
		return "does not apply", apart
	case left != "":
		return "left out", left
	case status == "skipped":
		return "", ""
	case status == "passed":
		return "passed", ""
	}
	return "failed", because(metallbKnown(), name)
}
