package host

import (
	"context"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestClusterLook_Node: a kubelet is told of its own Node, and a kubelet that may not ask is no fault.
func TestClusterLook_Node(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	must(t, err)
	nodes := client.CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-there"}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, nodes.Delete(context.WithoutCancel(t.Context()), "host-there", metav1.DeleteOptions{}))
	})
	for name, tt := range map[string]struct {
		user, want string
		groups     []string
		young      bool
	}{
		"its Node is there":                 {user: "system:node:host-there", groups: []string{"system:nodes"}},
		"its Node is gone":                  {user: "system:node:host-gone", groups: []string{"system:nodes"}, want: "N1"},
		"its kubelet has just been started": {user: "system:node:host-gone", groups: []string{"system:nodes"}, young: true},
		"it may not ask":                    {user: "system:node:host-gone"},
		"it has not joined: no Node's":      {user: "somebody"},
	} {
		t.Run(name, func(t *testing.T) {
			m, runner := newHost(t, 0)
			machinetest.Put(t, m, "/proc/uptime", "1000.50 900.00\n")
			const unit = "systemctl show kubelet -p LoadState"
			runner.Answers[unit] += "ExecMainStartTimestampMonotonic=900000000\n"
			if tt.young {
				runner.Answers[unit] += "ExecMainStartTimestampMonotonic=990000000\n"
			}
			m.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) { // no kube-proxy is here
				return new(net.Dialer).DialContext(ctx, network, strings.Trim(strings.TrimPrefix(cluster.Config.Host, "https:"), "/"))
			}
			config, err := cluster.Kubeconfig(tt.user, tt.groups...)
			must(t, err)
			machinetest.Put(t, m, machine.KubeletConf, string(config))
			d := diagnoseHost(t, m)
			if ids, text := hostWords(d); ids != tt.want {
				t.Errorf("got %s, want %s\n%s", ids, tt.want, text)
			}
			if seen := len(d.NotSeen) == 1; seen != (name != "it may not ask") {
				t.Errorf("not seen: %v", d.NotSeen)
			}
		})
	}
}
