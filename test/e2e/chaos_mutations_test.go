package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mutation is a change that no list names, and how it is taken back.
type mutation struct{ what, on, inject, undo string }

// mutate chooses one by the seed.
func (c *chaos) mutate(t *testing.T, r *rand.Rand) mutation {
	t.Helper()
	m := c.nodes[r.IntN(len(c.nodes))]
	switch r.IntN(8) {
	case 0, 1, 2:
		return c.ofObject(t, r)
	case 3:
		return c.ofFlag(t, r)
	case 4:
		return c.ofFile(t, r, m)
	case 5:
		return ofRule(r, m)
	case 6:
		return c.ofKernel(t, r, m)
	}
	return ofProcess(r, m)
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// ofObject changes or removes one field of one object of kube-system, or of a role of the control plane.
func (c *chaos) ofObject(t *testing.T, r *rand.Rand) mutation {
	t.Helper()
	kind := pick(r, []string{
		"daemonset", "deployment", "service", "configmap", "role", "rolebinding", "serviceaccount", "clusterrole", "clusterrolebinding",
		"validatingadmissionpolicy",
	})
	const bound = "system:node-proxier|system:coredns|kubeadm:|ccmadm|system:node$|system:kube-"
	names := strings.Fields(c.sh(t, "cp1", admin+"-n kube-system get "+kind+" -o name | sort").out)
	if strings.HasPrefix(kind, "cluster") {
		names = strings.Fields(c.sh(t, "cp1", admin+"get "+kind+" -o name | grep -E '"+bound+"' | sort").out)
	}
	if len(names) == 0 {
		return mutation{on: "cp1", inject: "false"}
	}
	name := pick(r, names)
	object := c.object(t, name)
	before, err := json.Marshal(object)
	if object == nil || err != nil {
		return mutation{on: "cp1", inject: "false"}
	}
	what := change(r, object)
	after, err := json.Marshal(object)
	if err != nil || what == "" {
		return mutation{on: "cp1", inject: "false"}
	}
	return mutation{
		what: name + ": " + what, on: "cp1",
		inject: "cat > /root/before.json <<'END'\n" + string(before) + "\nEND\ncat > /root/after.json <<'END'\n" + string(after) + "\nEND\n" +
			"kubectl replace -f /root/after.json",
		undo: "kubectl replace -f /root/before.json || kubectl replace --force -f /root/before.json",
	}
}

// change alters one leaf below everything but apiVersion, kind, and the object's name, and says which.
func change(r *rand.Rand, object map[string]any) string {
	type leaf struct {
		path string
		set  func(value any, remove bool)
		old  any
	}
	var leaves []leaf
	var walk func(path string, value any, set func(any, bool))
	walk = func(path string, value any, set func(any, bool)) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if path == "" && (key == "apiVersion" || key == "kind") || path == ".metadata" && key != "labels" {
					continue
				}
				walk(path+"."+key, v[key], func(value any, remove bool) {
					if remove {
						delete(v, key)
						return
					}
					v[key] = value
				})
			}
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), v[i], func(value any, remove bool) {
					if remove {
						set(slices.Delete(v, i, i+1), false)
						return
					}
					v[i] = value
				})
			}
		default:
			leaves = append(leaves, leaf{path, set, value})
		}
	}
	walk("", object, nil)
	if len(leaves) == 0 {
		return ""
	}
	l := pick(r, leaves)
	if r.IntN(2) == 0 {
		l.set(nil, true)
		return l.path + " removed"
	}
	switch v := l.old.(type) {
	case bool:
		l.set(!v, false)
	case float64:
		l.set(pick(r, []float64{0, v + 1, v * 10}), false)
	case string:
		lines := strings.Split(v, "\n")
		if len(lines) > 2 { // a file in a ConfigMap loses a line
			at := r.IntN(len(lines))
			l.set(strings.Join(slices.Delete(lines, at, at+1), "\n"), false)
			return fmt.Sprintf("%s without its line %d", l.path, at+1)
		}
		l.set(v+"x", false)
	default:
		return ""
	}
	return l.path + " changed"
}

// ofFlag removes or alters a flag of a static pod.
func (c *chaos) ofFlag(t *testing.T, r *rand.Rand) mutation {
	t.Helper()
	file := "/etc/kubernetes/manifests/" + pick(r, []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}) + ".yaml"
	flags := strings.Split(strings.TrimSpace(c.sh(t, "cp1", "grep -n -e '^    - --' "+file).out), "\n")
	number, flag, _ := strings.Cut(pick(r, flags), ":")
	edit, what := "d", "removed"
	if r.IntN(2) == 0 {
		edit, what = "s/$/x/", "with an x at its end"
	}
	return mutation{
		what: file + ": " + strings.TrimSpace(flag) + " " + what, on: "cp1",
		inject: fmt.Sprintf("cp %s /root/before.yaml && sed -i '%s%s' %[1]s", file, number, edit),
		undo:   "cp /root/before.yaml " + file,
	}
}

// ofFile removes a file of the control plane or the kubelet, or cuts it; the kubelet may be started again on top.
func (c *chaos) ofFile(t *testing.T, r *rand.Rand, m string) mutation {
	t.Helper()
	const where = "find /etc/kubernetes /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env /var/lib/kubelet/pki -type f | sort"
	files := strings.Fields(c.sh(t, m, where).out)
	if len(files) == 0 {
		return mutation{on: m, inject: "false"}
	}
	file := pick(r, files)
	change := pick(r, []string{"rm %s", "truncate -s 0 %s", "truncate -s 40 %s", "sed -i 3d %s"})
	inject := fmt.Sprintf(change, file)
	if r.IntN(2) == 0 {
		inject += " && systemctl restart kubelet --no-block"
	}
	return mutation{what: inject, on: m, inject: inject, undo: "tar -C / -xf /root/before.tar; systemctl restart kubelet"}
}

// ofRule drops packets to a port.
func ofRule(r *rand.Rand, m string) mutation {
	hook := pick(r, []string{"input", "output", "forward"})
	port := pick(r, []string{"tcp dport 6443", "tcp dport 10250", "tcp dport 2379", "udp dport 53", "tcp dport 8080", "tcp dport 53", "tcp sport 6443"})
	return mutation{
		what: "packets dropped: " + hook + " " + port, on: m,
		inject: fmt.Sprintf("nft add table ip chaos && nft add chain ip chaos c '{ type filter hook %s priority 0; }' && nft add rule ip chaos c %s drop", hook, port),
		undo:   "nft delete table ip chaos",
	}
}

// ofKernel changes a route, a link or a setting of the machine.
func (c *chaos) ofKernel(t *testing.T, r *rand.Rand, m string) mutation {
	t.Helper()
	if r.IntN(2) == 0 {
		setting := pick(r, []string{"net.ipv4.ip_forward=0", "net.ipv4.conf.all.forwarding=0", "net.ipv4.conf.all.rp_filter=1"})
		name, _, _ := strings.Cut(setting, "=")
		old := strings.TrimSpace(c.sh(t, m, "sysctl -n "+name).out)
		return mutation{what: "sysctl " + setting, on: m, inject: "sysctl -qw " + setting, undo: "sysctl -qw " + name + "=" + old}
	}
	routes := strings.Split(strings.TrimSpace(c.sh(t, m, "ip -4 route show | grep -v 'proto kernel'").out), "\n")
	route := strings.TrimSpace(pick(r, routes))
	if route == "" {
		return mutation{on: m, inject: "false"}
	}
	return mutation{what: "route deleted: " + route, on: m, inject: "ip route del " + route, undo: "ip route add " + route}
}

// ofProcess stops a process, which neither ends nor answers.
func ofProcess(r *rand.Rand, m string) mutation {
	name := pick(r, []string{
		"kubelet", "containerd", "kube-proxy", "kube-scheduler", "kube-controller-manager", "etcd", "coredns", "cloud-controller-manager", "node-agent",
	})
	return mutation{
		what: "SIGSTOP " + name, on: m,
		inject: "p=$(pgrep -x -o " + name[:min(15, len(name))] + ") && kill -STOP $p && echo $p > /root/stopped", undo: "kill -CONT $(cat /root/stopped)",
	}
}
