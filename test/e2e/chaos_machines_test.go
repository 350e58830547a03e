package e2e

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
)

// restored brings a machine's files back, and starts what reads them.
const restored = "tar -C / -xf /root/before.tar; systemctl daemon-reload; systemctl restart containerd kubelet"

// ofFlag removes or alters a flag of a static pod.
func (c *chaos) ofFlag(t *testing.T, r *rand.Rand) mutation {
	t.Helper()
	component := pick(r, []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"})
	file := "/etc/kubernetes/manifests/" + component + ".yaml"
	lines, what := "^    - --", ""
	if r.IntN(3) == 0 { // any other line: of a probe, a volume, a port, an image
		lines = "^ "
	}
	all := strings.Split(strings.TrimSpace(c.sh(t, "cp1", "grep -n -e '"+lines+"' "+file).out), "\n")
	number, line, _ := strings.Cut(pick(r, all), ":")
	edit := pick(r, []string{"d", "s/$/x/", "s/[0-9]/1/"})
	switch edit {
	case "d":
		what = "removed"
	case "s/$/x/":
		what = "with an x at its end"
	default:
		what = "with a 1 in place of its first digit"
	}
	return mutation{
		what: file + ": " + strings.TrimSpace(line) + " " + what, on: "cp1", names: []string{component, "cp1", file},
		inject: fmt.Sprintf("cp %s /root/before.yaml && sed -i '%s%s' %[1]s && ! cmp -s %[1]s /root/before.yaml", file, number, edit),
		undo:   "cp /root/before.yaml " + file,
	}
}

// ofFile removes a file of the control plane, the kubelet, the runtime or the network, or cuts it, or takes its mode; what reads it
// may be started again on top.
func (c *chaos) ofFile(t *testing.T, r *rand.Rand, m string) mutation {
	t.Helper()
	const where = "find /etc/kubernetes /etc/cni/net.d /etc/containerd /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env " +
		"/var/lib/kubelet/pki /etc/default/kubelet /etc/systemd/system -type f -not -path '*/tmp/*' 2>/dev/null | grep -v -e '/ccmadm/journal' | sort"
	files := strings.Fields(c.sh(t, m, where).out)
	if len(files) == 0 {
		return mutation{}
	}
	file := pick(r, files)
	inject := fmt.Sprintf(pick(r, []string{"rm %s", "truncate -s 0 %s", "truncate -s 40 %s", "sed -i 3d %s", "sed -i '0,/[0-9]/s//7/' %s"}), file)
	switch r.IntN(4) {
	case 0:
		inject += " && systemctl restart kubelet --no-block"
	case 1:
		inject += " && systemctl daemon-reload && systemctl restart containerd kubelet --no-block"
	}
	base := path.Base(file)
	return mutation{what: inject, on: m, inject: inject, undo: restored, names: []string{m, base, strings.TrimSuffix(base, ".yaml")}}
}

// ofCertificate puts the certificate or kubeconfig of one component in the place of another's, or makes a new one that has ended.
func (c *chaos) ofCertificate(t *testing.T, r *rand.Rand, m string) mutation {
	t.Helper()
	if m != "cp1" {
		return mutation{
			what: "the kubelet's client certificate is another Node's", on: m, undo: restored, names: []string{m},
			inject: "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /O=system:nodes/CN=system:node:other -keyout /root/k.pem -out /root/c.pem 2>/dev/null && " +
				"cat /root/c.pem /root/k.pem > /var/lib/kubelet/pki/kubelet-client-current.pem && systemctl restart kubelet --no-block",
		}
	}
	const where = "find /etc/kubernetes -type f '(' -name '*.crt' -o -name '*.conf' -o -name '*.key' ')' -not -path '*/tmp/*' -not -name 'sa.*' | sort"
	files := strings.Fields(c.sh(t, m, where).out)
	if len(files) < 2 {
		return mutation{}
	}
	target := pick(r, files)
	component := pick(r, []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"})
	again := "; crictl rm -f $(crictl ps -q --name '^" + component + "$') >/dev/null 2>&1; true"
	names := []string{m, path.Base(target), component}
	if strings.HasSuffix(target, ".crt") && !strings.HasSuffix(target, "ca.crt") && r.IntN(2) == 0 {
		ca := path.Dir(target) + "/ca"
		if strings.Contains(target, "front-proxy") {
			ca = path.Dir(target) + "/front-proxy-ca"
		} else if strings.Contains(target, "apiserver-etcd") {
			ca = path.Dir(target) + "/etcd/ca"
		}
		return mutation{
			what: target + " ended a minute ago, and " + component + " starts again", on: m, undo: restored + again, names: names,
			inject: fmt.Sprintf("openssl x509 -in %[1]s -CA %[2]s.crt -CAkey %[2]s.key -CAcreateserial -copy_extensions copy "+
				"-not_before 20240101000000Z -not_after $(date -u -d '1 minute ago' +%%Y%%m%%d%%H%%M%%SZ) -out /root/c.pem 2>/dev/null && cp /root/c.pem %[1]s"+again, target, ca),
		}
	}
	source := pick(r, files)
	if source == target || path.Ext(source) != path.Ext(target) {
		return mutation{}
	}
	return mutation{
		what: source + " copied to " + target + ", and " + component + " starts again", on: m, undo: restored + again, names: names,
		inject: "cp " + source + " " + target + again,
	}
}

// ofRule drops packets: to a port, from a machine or a network, or some of all.
func ofRule(r *rand.Rand, m string) mutation {
	hook := pick(r, []string{"input", "output", "forward"})
	match := pick(r, []string{
		"tcp dport 6443", "tcp dport 10250", "tcp dport 2379", "udp dport 53", "tcp dport 8080", "tcp dport 53", "tcp sport 6443", "tcp dport 443",
		"ip daddr 10.96.0.0/12", "ip saddr 10.244.0.0/16", "ip protocol icmp", "ct state new", "ip protocol tcp numgen random mod 3 == 0",
	})
	return mutation{
		what: "packets dropped: " + hook + " " + match, on: m, undo: "nft delete table ip chaos", names: []string{m},
		inject: fmt.Sprintf("nft add table ip chaos && nft add chain ip chaos c '{ type filter hook %s priority 0; }' && nft add rule ip chaos c %s drop", hook, match),
	}
}

// ofKernel changes a route, a link or a setting of the machine.
func (c *chaos) ofKernel(t *testing.T, r *rand.Rand, m string) mutation {
	t.Helper()
	switch r.IntN(3) {
	case 0:
		setting := pick(r, []string{"net.ipv4.ip_forward=0", "net.ipv4.conf.all.forwarding=0", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.ip_local_port_range=40000 40001"})
		name, value, _ := strings.Cut(setting, "=")
		old := strings.TrimSpace(c.sh(t, m, "sysctl -n "+name).out)
		return mutation{
			what: "sysctl " + setting, on: m, names: []string{m},
			inject: "sysctl -qw '" + name + "=" + value + "'", undo: "sysctl -qw '" + name + "=" + old + "'",
		}
	case 1:
		link := pick(r, []string{"eth0", "cni0"})
		return pick(r, []mutation{
			{what: "MTU 1280 of " + link, inject: "ip link set dev " + link + " mtu 1280", undo: "ip link set dev " + link + " mtu 1500", names: []string{m}},
			{what: "cni0 down", inject: "ip link set dev cni0 down", undo: "ip link set dev cni0 up", names: []string{m}},
			{what: "rules of kube-proxy gone", inject: "nft flush table ip kube-proxy", undo: "true", names: []string{m}},
		}).at(m)
	}
	routes := strings.Split(strings.TrimSpace(c.sh(t, m, "ip -4 route show | grep -v 'proto kernel'").out), "\n")
	route := strings.TrimSpace(pick(r, routes))
	if route == "" {
		return mutation{}
	}
	return mutation{what: "route deleted: " + route, on: m, inject: "ip route del " + route, undo: "ip route add " + route, names: []string{m}}
}

// ofMachine changes what the machine's administrator has in his hands.
func ofMachine(r *rand.Rand, m string) mutation {
	unit := pick(r, []string{"kubelet", "containerd"})
	return pick(r, []mutation{
		{what: unit + " stopped", inject: "systemctl stop " + unit, undo: "systemctl start containerd kubelet", names: []string{m}},
		{
			what: unit + " masked and killed", inject: "systemctl mask --runtime " + unit + " && systemctl kill -s KILL " + unit + " && sleep 2; systemctl stop " + unit,
			undo: "systemctl unmask --runtime " + unit + "; systemctl start containerd kubelet", names: []string{m},
		},
		{what: "resolv.conf with a server that is not there", inject: "echo nameserver 192.0.2.200 > /etc/resolv.conf", undo: restored, names: []string{m, "resolv", "coredns"}},
		{what: "resolv.conf with its own address", inject: "echo nameserver 127.0.0.53 > /etc/resolv.conf", undo: restored, names: []string{m, "resolv", "coredns"}},
		{
			what: "cp1 is another address in /etc/hosts", inject: "echo 192.0.2.200 cp1 >> /etc/hosts && systemctl restart kubelet --no-block", undo: restored,
			names: []string{m, "hosts"},
		},
		{
			what: "another host name", inject: "hostname other && systemctl restart kubelet --no-block", undo: "hostname " + m + "; systemctl restart kubelet",
			names: []string{m, "other"},
		},
		{
			what: "all containers removed", inject: "crictl rm -fa >/dev/null 2>&1; true", undo: "true", names: []string{m},
		},
		{what: "no room for processes of the kubelet's slice", inject: "systemctl set-property --runtime kubelet.service TasksMax=3", undo: "systemctl set-property --runtime kubelet.service TasksMax=infinity; systemctl restart kubelet", names: []string{m}},
	}).at(m)
}

// ofKubeletSetting changes a field of the kubelet's configuration, and starts it again.
func (c *chaos) ofKubeletSetting(t *testing.T, r *rand.Rand, m string) mutation {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(c.sh(t, m, "grep -n -v -e '^apiVersion' -e '^kind' /var/lib/kubelet/config.yaml").out), "\n")
	number, line, _ := strings.Cut(pick(r, lines), ":")
	edit := pick(r, []string{"d", "s/$/x/", "s/[0-9]/7/", "s/true/false/", "s/false/true/"})
	return mutation{
		what: "/var/lib/kubelet/config.yaml: " + strings.TrimSpace(line) + ", sed " + edit, on: m, undo: restored, names: []string{m, "kubelet"},
		inject: fmt.Sprintf("cp /var/lib/kubelet/config.yaml /root/config.yaml && sed -i '%s%s' /var/lib/kubelet/config.yaml && "+
			"! cmp -s /root/config.yaml /var/lib/kubelet/config.yaml && systemctl restart kubelet --no-block", number, edit),
	}
}

// ofProcess stops a process, which neither ends nor answers.
func ofProcess(r *rand.Rand, m string) mutation {
	name := pick(r, []string{
		"kubelet", "containerd", "kube-proxy", "kube-scheduler", "kube-controller-manager", "etcd", "coredns", "cloud-controller-manager", "node-agent",
		"kube-apiserver", "sample-ccm",
	})
	return mutation{
		what: "SIGSTOP " + name, on: m, names: []string{name, m},
		inject: "p=$(pgrep -x -o " + name[:min(15, len(name))] + ") && kill -STOP $p && echo $p > /root/stopped", undo: "kill -CONT $(cat /root/stopped)",
	}
}
