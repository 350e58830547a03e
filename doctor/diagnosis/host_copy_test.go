package diagnosis

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/templates"
)

const (
	joinAgain = ", then on a control plane: kubeadm token create --print-join-command, then on the copy "
	byKubeadm = "the command that it prints"
	byCcmadm  = "`ccmadm join` with the arguments of the command that it prints"
	asControl = ", with --control-plane and --certificate-key KEY; " +
		"`kubeadm init phase upload-certs --upload-certs` on that control plane prints KEY"
)

// TestDiagnose_Twin: the remedy removes no member of etcd, which would be the original's, and the copy joins with a name of its own, as
// what the original is, and in external cloud mode where the original was joined so.
func TestDiagnose_Twin(t *testing.T) {
	const (
		reset    = "systemctl stop kubelet && kubeadm reset --skip-phases=remove-etcd-member"
		ours     = "ccmadm reset -- --skip-phases=remove-etcd-member"
		moved    = " && mv /var/lib/etcd/member /root/etcd-member-of-the-copy"
		identity = " && rm /etc/machine-id && systemd-machine-id-setup && hostnamectl set-hostname copy-of-w1"
	)
	override := func(file string) []HostFlag {
		return []HostFlag{{Name: "hostname-override", Runs: true, Value: "w1", Places: []HostPlace{{File: file, Value: "w1"}}}}
	}
	server := []HostManifest{{File: "/etc/kubernetes/manifests/kube-apiserver.yaml", Pod: "kube-system/kube-apiserver"}}
	etcd := []HostManifest{server[0], {File: "/etc/kubernetes/manifests/etcd.yaml", Pod: "kube-system/etcd"}}
	for name, tt := range map[string]struct {
		host          Host
		config, first string
		want, join    string
	}{
		"worker":           {want: reset + identity, join: byKubeadm},
		"control plane":    {host: Host{Manifests: etcd}, want: reset + moved + identity, join: byKubeadm + asControl},
		"ccmadm's, worker": {host: Host{Ours: true}, want: "systemctl stop kubelet && " + ours + identity, join: byCcmadm},
		"ccmadm's, control plane": {
			host: Host{Ours: true, Manifests: etcd}, join: byCcmadm + asControl,
			want: "systemctl stop kubelet && { " + ours + " || test ! -e /etc/kubernetes/manifests/etcd.yaml; }" + moved + identity,
		},
		"ccmadm's, etcd elsewhere": {
			host: Host{Ours: true, Manifests: server}, want: "systemctl stop kubelet && " + ours + identity, join: byCcmadm + asControl,
		},
		"data elsewhere": {
			host: Host{Manifests: etcd}, config: "etcd: {local: {dataDir: \"/data/of $(etcd)\"}}",
			want: reset + " && mv '/data/of $(etcd)/member' /root/etcd-member-of-the-copy" + identity, join: byKubeadm + asControl,
		},
		"a name that kubeadm wrote": {host: Host{Flags: override("/var/lib/kubelet/kubeadm-flags.env")}, want: reset + identity, join: byKubeadm},
		"a name that stays": {
			host: Host{Flags: override("/etc/default/kubelet")}, want: reset + identity, join: byKubeadm,
			first: "remove --hostname-override from /etc/default/kubelet, then: ",
		},
	} {
		s := newSnapshot(templates.StaticPod, 3)
		s.Kubeadm = tt.config
		tt.host.Name, tt.host.Node, tt.host.Registered = "w1", "w1", &HostNode{Name: "w1", Ready: true, Twin: "boot ID x"}
		s.Host = &tt.host
		got := nextOf(Diagnose(s), finding.NodeTwice)
		if want := "hostnamectl; cat /etc/machine-id; on the copy: " + tt.first + tt.want + joinAgain + tt.join; got != want {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", tt.want).CombinedOutput(); err != nil { //nolint:gosec // of the test
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestResetCopy_Etcd runs the remedy in a shell: a reset that ends with an error about etcd's data goes on, and one that was refused does not.
func TestResetCopy_Etcd(t *testing.T) {
	for name, tt := range map[string]struct {
		ccmadm, want string
	}{
		"it leaves etcd's data": {ccmadm: "rm ROOT/etc/kubernetes/manifests/etcd.yaml; exit 1", want: "mv rm systemd-machine-id-setup"},
		"it finds none":         {ccmadm: "rm ROOT/etc/kubernetes/manifests/etcd.yaml", want: "mv rm systemd-machine-id-setup"},
		"it is refused":         {ccmadm: "exit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			manifest := filepath.Join(root, "etc/kubernetes/manifests/etcd.yaml")
			err := errors.Join(os.MkdirAll(filepath.Dir(manifest), 0o700), os.WriteFile(manifest, nil, 0o600), os.Mkdir(root+"/bin", 0o700))
			for program, script := range map[string]string{
				"systemctl": ":", "ccmadm": "PATH=/usr/bin:/bin; " + strings.ReplaceAll(tt.ccmadm, "ROOT", root),
				"mv": "echo mv", "rm": "echo rm", "systemd-machine-id-setup": "echo systemd-machine-id-setup",
			} {
				err = errors.Join(err, os.WriteFile(filepath.Join(root, "bin", program), []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // it is run
			}
			if err != nil {
				t.Fatal(err)
			}
			s := newSnapshot(templates.StaticPod, 3)
			s.Host = &Host{Name: "w2", Ours: true, Manifests: []HostManifest{{File: manifest, Pod: "kube-system/etcd"}}}
			line, _, _ := strings.Cut(s.resetCopy("w2"), ", then ")
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(line, " /etc/", " "+root+"/etc/")) //nolint:gosec // of the test
			cmd.Env = []string{"PATH=" + root + "/bin"}
			out, err := cmd.Output()
			if got := strings.Join(strings.Fields(string(out)), " "); got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("%s: got %s: %v", line, got, err)
			}
		})
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
		" && hostnamectl set-hostname w9" + joinAgain + byKubeadm
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
