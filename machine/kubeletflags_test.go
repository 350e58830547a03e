package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMachine_KubeletFlags(t *testing.T) {
	const dropIn = "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{name: "no files"},
		{
			name: "kubeadm's file", files: map[string]string{"var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--cloud-provider=external --node-ip=10.0.0.1"`},
			want: []string{"/var/lib/kubelet/kubeadm-flags.env:1: --cloud-provider=external", "/var/lib/kubelet/kubeadm-flags.env:1: --node-ip=10.0.0.1"},
		},
		{
			name: "Debian's file, a blank instead of =", files: map[string]string{"etc/default/kubelet": "# --cloud-provider=gce\nKUBELET_EXTRA_ARGS=--cloud-provider aws\n"},
			want: []string{"/etc/default/kubelet:2: --cloud-provider=aws"},
		},
		{
			name: "the RPM's file", files: map[string]string{"etc/sysconfig/kubelet": "KUBELET_EXTRA_ARGS='--v=2 --cloud-provider=openstack'"},
			want: []string{"/etc/sysconfig/kubelet:1: --cloud-provider=openstack"},
		},
		{
			name: "weakest first", files: map[string]string{
				"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--cloud-provider=b", dropIn: `Environment="KUBELET_KUBEADM_ARGS=--cloud-provider=a"`,
			},
			want: []string{"/" + dropIn + ":1: --cloud-provider=a", "/etc/default/kubelet:1: --cloud-provider=b"},
		},
		{
			name: "a flag behind a switch, and quotes around a value", files: map[string]string{
				"etc/default/kubelet": `KUBELET_EXTRA_ARGS=--fail-swap-on --cloud-provider="external" --v=2 --node-ip '10.0.0.1'`,
			},
			want: []string{"/etc/default/kubelet:1: --cloud-provider=external", "/etc/default/kubelet:1: --node-ip=10.0.0.1"},
		},
		{
			name:  "an empty value at the end of a quotation",
			files: map[string]string{"etc/default/kubelet": `KUBELET_EXTRA_ARGS="--node-ip=10.0.0.1 --cloud-provider="`},
			want:  []string{"/etc/default/kubelet:1: --node-ip=10.0.0.1", "/etc/default/kubelet:1: --cloud-provider="},
		},
		{name: "our own drop-in does not count", files: map[string]string{"etc/systemd/system/kubelet.service.d/20-ccmadm.conf": "--cloud-provider=external"}},
		{name: "a longer flag is another flag", files: map[string]string{"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--cloud-provider-x=1 --my-cloud-provider=2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range tc.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			uses, err := At(root).KubeletFlags("cloud-provider", "node-ip")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range uses {
				got = append(got, strings.TrimPrefix(u.String(), root))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("uses (-want +got):\n%s", diff)
			}
		})
	}
}
