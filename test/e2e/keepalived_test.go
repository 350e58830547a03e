package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// keepalivedConf, checkAPIServer and haproxyCfg are as kubeadm's authors publish them (ha-considerations.md), with
	// the router ID and the password that they leave open, without HAProxy's log, and with a socket that says which API
	// servers it sends clients to. Port 7443 is HAProxy's, since the API server has 6443.
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
 authentication {
  auth_type PASS
  auth_pass 42
 }
 virtual_ipaddress {
  %[3]s
 }
 track_script {
  check_apiserver
 }
}
`
	checkAPIServer = `#!/bin/sh
curl -sfk --max-time 2 https://localhost:7443/healthz -o /dev/null || { echo "*** Error GET" >&2; exit 1; }
`
	haproxyCfg = `global
 daemon
 stats socket /run/haproxy.sock
defaults
 mode http
 option http-server-close
 option redispatch
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

// keepalived is keepalived and HAProxy of Debian. Both are under the GPL: these machines run them as Debian packs them,
// and nothing of ours is linked with them or brings them along.
func (c *vipCluster) keepalived(t *testing.T) vipContender {
	t.Helper()
	archives := strings.TrimSpace(labOutput(t, "packages", "keepalived", "haproxy"))
	b := vipContender{
		who: "keepalived", address: c.inSubnet(t, 201), port: 7443, watch: 35 * time.Second,
		away: "systemctl stop keepalived", back: "systemctl start keepalived",
		kill: "pkill -9 keepalived", revive: "systemctl restart keepalived",
		explain: "systemctl status haproxy keepalived; ip -br address; journalctl -u keepalived -u haproxy | tail -40",
	}
	// The machine of the highest priority takes the address back, and HAProxy sends clients to all three again: a fault
	// before that would meet a move, or a server that has no clients.
	b.runs = "systemctl is-active keepalived && curl -sfk --max-time 2 https://localhost:6443/livez && " +
		"{ [ $(hostname) != cp1 ] || ip -o address show dev eth0 | grep -wF " + b.address.String() + "; } && " +
		"echo show servers state | socat - UNIX:/run/haproxy.sock | awk '$6 == 2 {up++} END {exit up != 3}'"
	var servers strings.Builder
	for _, m := range c.controlPlanes() {
		fmt.Fprintf(&servers, " server %s %s:6443 check verify none\n", m, c.lab.address(t, m))
	}
	for i, m := range c.controlPlanes() {
		state := "BACKUP"
		if i == 0 {
			state = "MASTER"
		}
		c.run(t, "cp", "--name", c.name, archives, m+":/tmp/packages")
		c.must(t, m, "mkdir -p /etc/keepalived /etc/haproxy")
		c.putOn(t, m, "/etc/keepalived/keepalived.conf", fmt.Sprintf(keepalivedConf, state, 101-i, b.address))
		c.putOn(t, m, "/etc/keepalived/check_apiserver.sh", checkAPIServer)
		c.putOn(t, m, "/etc/haproxy/haproxy.cfg", fmt.Sprintf(haproxyCfg, servers.String()))
		c.must(t, m, "chmod +x /etc/keepalived/check_apiserver.sh; export DEBIAN_FRONTEND=noninteractive; "+
			"dpkg --force-confold -i /tmp/packages/*.deb && systemctl restart haproxy keepalived")
		t.Cleanup(func() { c.must(t, m, "systemctl disable --now keepalived haproxy") })
	}
	return b
}
