package manifests

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// What client-go makes of the two variables is host:port, with brackets where they are needed.
func TestAddon_Endpoint(t *testing.T) {
	tests := []struct {
		name, endpoint string
		want           []string
	}{
		{
			name:     "an IPv4 address",
			endpoint: "https://198.18.0.10:6443",
			want:     []string{"KUBERNETES_SERVICE_HOST=198.18.0.10", "KUBERNETES_SERVICE_PORT=6443"},
		},
		{
			name:     "an IPv6 address",
			endpoint: "https://[fd00::10]:6443",
			want:     []string{"KUBERNETES_SERVICE_HOST=fd00::10", "KUBERNETES_SERVICE_PORT=6443"},
		},
		{
			name:     "a name without a port",
			endpoint: "https://api.example.com",
			want:     []string{"KUBERNETES_SERVICE_HOST=api.example.com", "KUBERNETES_SERVICE_PORT=443"},
		},
		{
			name: "none: the service's virtual address, from the kubelet",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := values(templates.DaemonSet)
			v.Endpoint = tt.endpoint
			template, err := podTemplate(onprem(t), v)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range template.Spec.Containers[0].Env {
				got = append(got, e.Name+"="+e.Value)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// Pods live in the machine's network, beside kubeadm's own: a port that is taken twice ends one of the two.
func TestCatalogue_Ports(t *testing.T) {
	kubeadm := map[int32]string{
		2379: "etcd", 2380: "etcd", 2381: "etcd", 6443: "kube-apiserver", 10248: "kubelet", 10249: "kube-proxy",
		10250: "kubelet", 10255: "kubelet", 10256: "kube-proxy", 10257: "kube-controller-manager",
		10259: "kube-scheduler", 53: "the machine's resolver", 80: "whatever serves HTTP", 9100: "a node exporter",
	}
	for _, name := range templates.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := templates.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			template, err := podTemplate(p, manifeststest.Values(p, p.Modes[0], "v1.36.0", true))
			if err != nil {
				t.Fatal(err)
			}
			taken := map[int32]bool{}
			for _, port := range template.Spec.Containers[0].Ports {
				if owner := kubeadm[port.ContainerPort]; owner != "" || taken[port.ContainerPort] {
					t.Errorf("port %d (%s) is taken already, %s", port.ContainerPort, port.Name, owner)
				}
				taken[port.ContainerPort] = true
			}
		})
	}
}
