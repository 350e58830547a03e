package diagnosis

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/templates"
)

const joinAgain = ", then on a control plane: kubeadm token create --print-join-command, then on the copy the command that it prints"

// TestDiagnose_Twin: the remedy removes no member of etcd, which would be the original's, and the copy joins with a name of its own.
func TestDiagnose_Twin(t *testing.T) {
	const (
		reset    = "systemctl stop kubelet && kubeadm reset --skip-phases=remove-etcd-member"
		identity = " && rm /etc/machine-id && systemd-machine-id-setup && hostnamectl set-hostname copy-of-w1"
	)
	override := func(file string) []HostFlag {
		return []HostFlag{{Name: "hostname-override", Runs: true, Value: "w1", Places: []HostPlace{{File: file, Value: "w1"}}}}
	}
	etcd := []HostManifest{{File: "/etc/kubernetes/manifests/etcd.yaml", Pod: "kube-system/etcd"}}
	for name, tt := range map[string]struct {
		host          Host
		config, first string
		want          string
	}{
		"worker":        {want: reset + identity},
		"control plane": {host: Host{Manifests: etcd}, want: reset + " && mv /var/lib/etcd/member /root/etcd-member-of-the-copy" + identity},
		"data elsewhere": {
			host: Host{Manifests: etcd}, config: "etcd: {local: {dataDir: \"/data/of $(etcd)\"}}",
			want: reset + " && mv '/data/of $(etcd)/member' /root/etcd-member-of-the-copy" + identity,
		},
		"a name that kubeadm wrote": {host: Host{Flags: override("/var/lib/kubelet/kubeadm-flags.env")}, want: reset + identity},
		"a name that stays": {
			host: Host{Flags: override("/etc/default/kubelet")}, want: reset + identity,
			first: "remove --hostname-override from /etc/default/kubelet, then: ",
		},
	} {
		s := newSnapshot(templates.StaticPod, 3)
		s.Kubeadm = tt.config
		tt.host.Name, tt.host.Node, tt.host.Registered = "w1", "w1", &HostNode{Name: "w1", Ready: true, Twin: "boot ID x"}
		s.Host = &tt.host
		got := nextOf(Diagnose(s), finding.NodeTwice)
		if want := "hostnamectl; cat /etc/machine-id; on the copy: " + tt.first + tt.want + joinAgain; got != want {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", tt.want).CombinedOutput(); err != nil { //nolint:gosec // of the test
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// A copy that was renamed has a Node's credentials, and explains nothing of the original's Node.
func TestDiagnose_RenamedCopy(t *testing.T) {
	s := newSnapshot(templates.StaticPod, 3, stale)
	s.Heartbeats[1].Spec.RenewTime.Time = taken.Add(-1e12)
	s.Host = &Host{Name: "localhost", Node: "w9", Registered: &HostNode{Name: "w1", Foreign: "boot ID x"}}
	d := Diagnose(s)
	if got := words(d); strings.Contains(got, "K18(1)>") || !strings.Contains(got, "W14(1)") {
		t.Errorf("got %s", got)
	}
	const want = "systemctl stop kubelet && kubeadm reset --skip-phases=remove-etcd-member && rm /etc/machine-id && systemd-machine-id-setup" +
		" && hostnamectl set-hostname w9" + joinAgain
	if got := nextOf(d, finding.KubeletRenamed); got != want {
		t.Errorf("got %s", got)
	}
}

// nextOf is the remedy of one finding.
func nextOf(d *Diagnosis, id finding.ID) string {
	for _, c := range d.Causes {
		if c.ID == id {
			return strings.TrimSpace(c.Next)
		}
	}
	return ""
}
