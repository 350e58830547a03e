package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	// keepalivedConf and haproxyCfg are as kubeadm's authors publish them (ha-considerations.md), with the router ID and
	// the password that they leave open. Port 8443 is the lab's own.
	keepalivedConf = `global_defs {
 router_id LVS_DEVEL
 script_user root
 enable_script_security
}
vrrp_script check_apiserver {
 script "/etc/keepalived/check_apiserver.sh"
 interval 3
 weight -2
 fall 10
 rise 2
}
vrrp_instance VI_1 {
 state %[1]s
 interface eth0
 virtual_router_id 51
 priority %[2]d
 authentication { auth_type PASS auth_pass 42 }
 virtual_ipaddress { %[3]s }
 track_script { check_apiserver }
}
`
	checkAPIServer = `#!/bin/sh
curl -sfk --max-time 2 https://localhost:7443/healthz -o /dev/null || { echo "*** Error GET" >&2; exit 1; }
`
	haproxyCfg = `global
 daemon
defaults
 mode http
 retries 1
 timeout http-request 10s
 timeout queue 20s
 timeout connect 5s
 timeout client 35s
 timeout server 35s
 timeout http-keep-alive 10s
 timeout check 10s
frontend apiserver
 bind *:7443
 mode tcp
 default_backend apiserverbackend
backend apiserverbackend
 option httpchk
 http-check connect ssl
 http-check send meth GET uri /healthz
 http-check expect status 200
 mode tcp
 balance roundrobin
%s`
)

// keepalived puts keepalived and HAProxy of Debian beside ours, as kubeadm's authors say, with an address of their own,
// and returns the same machines with a client of theirs.
func (c *vipCluster) keepalived(t *testing.T) *vipCluster {
	t.Helper()
	archives := strings.TrimSpace(labOutput(t, "packages", "keepalived", "haproxy"))
	k := *c
	k.address = c.inSubnet(t, 201)
	var servers strings.Builder
	for _, m := range []string{"cp1", "cp2", "cp3"} {
		fmt.Fprintf(&servers, " server %s %s:6443 check verify none\n", m, c.lab.address(t, m))
	}
	for i, m := range []string{"cp1", "cp2", "cp3"} {
		state := "BACKUP"
		if i == 0 {
			state = "MASTER"
		}
		c.run(t, "cp", "--name", c.name, archives, m+":/tmp/packages")
		c.must(t, m, "mkdir -p /etc/keepalived /etc/haproxy; cat > /etc/keepalived/keepalived.conf <<'END'\n"+
			fmt.Sprintf(keepalivedConf, state, 101-i, k.address)+"END\ncat > /etc/keepalived/check_apiserver.sh <<'END'\n"+
			checkAPIServer+"END\nchmod +x /etc/keepalived/check_apiserver.sh; cat > /etc/haproxy/haproxy.cfg <<'END'\n"+
			fmt.Sprintf(haproxyCfg, servers.String())+"END\n"+
			"DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /tmp/packages/*.deb && systemctl restart haproxy keepalived")
	}
	k.client = c.probe(t, "VIP", "w1", "tls:"+k.address.String()+":7443", "eth0")
	return &k
}

// besideKeepalived are the faults of the connection, with keepalived's process in the place of our pod.
func (c *vipCluster) besideKeepalived(t *testing.T, figures *table) {
	t.Helper()
	figures.who = "keepalived"
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.sh(t, "cp1", "systemctl status haproxy keepalived; journalctl -u keepalived -u haproxy | tail -40").out)
		}
	})
	for _, f := range c.connectionFaults(t) {
		switch f.name {
		case "pod's manifest removed":
			f.do = func(owner string) { c.must(t, owner, "systemctl stop keepalived") }
			f.undo = func(owner string) { c.must(t, owner, "systemctl start keepalived") }
		case "pod killed":
			f.do = func(owner string) { c.must(t, owner, "pkill -9 keepalived") }
			f.undo = func(owner string) { c.must(t, owner, "systemctl restart keepalived") }
		}
		f.watch = max(f.watch, 12*time.Second)
		c.steady(t, "cp1", "cp2", "cp3")
		c.measure(t, figures, []*onlooker{c.client}, f)
	}
}

// labOutput is what the lab's program prints.
func labOutput(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, labBinary, args...)
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lab %v: %v\n%s", args, err, log.String())
	}
	return string(out)
}
