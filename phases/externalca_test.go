package phases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// With an external CA, the kubelet's kubeconfig is there before kubeadm has done anything: no evidence that it is done.
func TestFinished_ExternalCA(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, "/etc/kubernetes/pki/ca.crt", "x")
	machinetest.Put(t, m, machine.KubeletConf, "x")
	machinetest.Put(t, m, machine.RecordFile, "x")
	machinetest.Put(t, m, machine.KubeadmConfig, phasestest.InitConfig)
	r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	if done, err := workflow.KubeadmFinished(r.Host); done || err != nil {
		t.Errorf("before kubeadm ran: got %t, %v, want false", done, err)
	}
	machinetest.Put(t, m, machine.KubeletConfig, "x")
	if done, err := workflow.KubeadmFinished(r.Host); !done || err != nil {
		t.Errorf("with what kubeadm gave the kubelet: got %t, %v, want true", done, err)
	}
}

// With an external CA, kubeadm demands that the kubelet's kubeconfig is there before init.
func TestKubeletInUse_ExternalCA(t *testing.T) {
	const ca, key = "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/ca.key"
	tests := []struct {
		name    string
		files   []string
		wantErr bool
	}{
		{
			name:  "a bare machine",
			files: nil,
		},
		{
			name:  "what an external CA has signed",
			files: []string{ca, machine.KubeletConf},
		},
		{
			name:    "the CA's key is there: a node, or a control plane",
			files:   []string{ca, key, machine.KubeletConf},
			wantErr: true,
		},
		{
			name:    "a worker of another cluster has the CA, and a kubelet with a configuration",
			files:   []string{ca, machine.KubeletConf, machine.KubeletConfig},
			wantErr: true,
		},
		{
			name:    "a control plane with an external CA",
			files:   []string{ca, machine.KubeletConf, machine.APIServerPod},
			wantErr: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			for _, file := range tt.files {
				machinetest.Put(t, m, file, "x")
			}
			r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
			if err := record.CheckKubeletInUse(t.Context(), r); (err != nil) != tt.wantErr {
				t.Errorf("got %v, want an error: %t", err, tt.wantErr)
			}
		})
	}
}

func TestExternalCA(t *testing.T) {
	ca := machinetest.NewCA(t)
	m, _ := machinetest.New(t)
	machinetest.CopyCA(t, ca, m.Path(machine.PKIDir))
	if err := os.Remove(m.Path(machine.PKIDir + "/ca.key")); err != nil {
		t.Fatal(err)
	}
	r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	phasestest.WantError(t, manager.CheckExternalCA(t.Context(), r), "has no ca.key", finding.ExitUsage)

	bundle, err := os.ReadFile(filepath.Join(ca, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.CCMKubeconfig, phasestest.TokenKubeconfig(bundle))
	phasestest.WantError(t, manager.CheckExternalCA(t.Context(), r), "", 0)
	if out, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, manager.Kubeconfig()); err != nil || !strings.Contains(out, "unchanged") {
		t.Errorf("the administrator's own identity: %v\n%s", err, out)
	}
	byPaths(t, m, ca)
	phasestest.WantError(t, manager.CheckExternalCA(t.Context(), r), "", 0)
	if err := os.Remove(m.Path("/etc/kubernetes/ccm.crt")); err != nil {
		t.Fatal(err)
	}
	phasestest.WantError(t, manager.CheckExternalCA(t.Context(), r), "holds none that lasts", finding.ExitUsage)
}

// byPaths gives the machine a kubeconfig that names its certificate and key, beside it.
func byPaths(t *testing.T, m *machine.Machine, ca string) {
	t.Helper()
	signed, err := identity.Sign(ca, "https://lb.example:6443", phasestest.Now)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(signed)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		machinetest.Put(t, m, "/etc/kubernetes/ccm.crt", string(user.ClientCertificateData))
		machinetest.Put(t, m, "/etc/kubernetes/ccm.key", string(user.ClientKeyData))
		user.ClientCertificateData, user.ClientKeyData = nil, nil
		user.ClientCertificate, user.ClientKey = "ccm.crt", "ccm.key"
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.CCMKubeconfig, string(data))
}

// What is the administrator's stays where ccmadm goes, also in a second run, whose record is gone.
func TestPurgeFiles_Kubeconfig(t *testing.T) {
	ca := machinetest.NewCA(t)
	bundle, err := os.ReadFile(filepath.Join(ca, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := identity.Sign(ca, "https://lb.example:6443", phasestest.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, kubeconfig string
		key, stays       bool
	}{
		{name: "ours", kubeconfig: string(signed), key: true},
		{name: "with an external CA", kubeconfig: string(signed), stays: true},
		{name: "a token of the administrator's", kubeconfig: phasestest.TokenKubeconfig(bundle), key: true, stays: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			machinetest.CopyCA(t, ca, m.Path("/srv/pki"))
			if !tt.key {
				if err := os.Remove(m.Path("/srv/pki/ca.key")); err != nil {
					t.Fatal(err)
				}
			}
			machinetest.Put(t, m, machine.CCMKubeconfig, tt.kubeconfig)
			rec := &state.Record{CertificatesDir: "/srv/pki"}
			rec.APIVersion, rec.Kind = v1alpha1.APIVersion, state.RecordKind
			data, err := rec.Encode()
			if err != nil {
				t.Fatal(err)
			}
			machinetest.Put(t, m, machine.RecordFile, string(data))
			for range 2 {
				r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
				if err := kubelet.PurgeFiles(r.Env); err != nil {
					t.Fatal(err)
				}
			}
			if got := machinetest.Content(m, machine.CCMKubeconfig) != ""; got != tt.stays {
				t.Errorf("it stays: %t, want %t", got, tt.stays)
			}
		})
	}
}
