package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestClusterName(t *testing.T) {
	const cluster = phasestest.InitConfig + "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncertificatesDir: /pki\n"
	ca := machinetest.NewCA(t)
	for _, tt := range []struct {
		name    string
		kubeadm string
		said    string
		record  string
		want    string
	}{
		{name: "the settings' name", kubeadm: "clusterName: theirs\n", said: "ours", want: "ours"},
		{name: "the name that the user gave kubeadm", kubeadm: "clusterName: theirs\n", want: "theirs"},
		{name: "derived from the CA", kubeadm: "clusterName: kubernetes\n", want: derivedName(t, ca)},
		{name: "derived again from the same CA", want: derivedName(t, ca)},
		{name: "what was found before the CA was replaced", record: "cluster-of-the-old-ca", want: "cluster-of-the-old-ca"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			machinetest.CopyCA(t, ca, m.Path("/pki"))
			if tt.record != "" {
				machinetest.Put(t, m, machine.RecordFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\nconfiguration: {clusterName: "+tt.record+"}\n")
			}
			r, _ := phasestest.Run{Config: cluster + tt.kubeadm, Inputs: workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{ClusterName: tt.said}}}}.Must(t, m)
			s, err := r.Settings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := record.ClusterName(r.Host, s); err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func derivedName(t *testing.T, ca string) string {
	t.Helper()
	certs, err := certutil.CertsFromFile(filepath.Join(ca, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return "cluster-" + strings.TrimPrefix(kubeadm.PinOf(certs[0]), "sha256:")[:10]
}

func TestKubeconfig(t *testing.T) {
	m, _ := machinetest.New(t)
	_, err := phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, Kubeconfig())
	phasestest.WantError(t, err, "sign a certificate for system:cloud-controller-manager", finding.ExitError)

	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	for i, want := range []string{"cloud-controller-manager.conf written", "cloud-controller-manager.conf unchanged"} {
		if out, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, Kubeconfig()); err != nil || !strings.Contains(out, want) {
			t.Errorf("run %d: %v\n%s, want %q", i+1, err, out, want)
		}
	}
	m.Now = func() time.Time { return phasestest.Now.AddDate(1, 0, -20) } // 20 days before its end
	machinetest.Put(t, m, machine.CCMManifest, string(Seal([]byte("metadata: {annotations: {a: b}}\n"))))
	if out, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, Kubeconfig()); err != nil || strings.Count(out, "written") != 2 {
		t.Errorf("near its end: %v\n%s, want a new one, and the pod started again", err, out)
	}
	if manifest := machinetest.Content(m, machine.CCMManifest); !sealed([]byte(manifest)) || !strings.Contains(manifest, "ccmadm.dev/kubeconfig-hash: ") {
		t.Errorf("the running pod would keep the old identity:\n%s", manifest)
	}
}

func TestKubeconfig_FollowsTheCABundle(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	r := phasestest.Run{Config: phasestest.InitConfig}
	if _, err := r.Do(t, m, Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(filepath.Join(machinetest.NewCA(t), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.PKIDir+"/ca.crt", machinetest.Content(m, machine.PKIDir+"/ca.crt")+string(next))
	if out, err := r.Do(t, m, Kubeconfig()); err != nil || !strings.Contains(out, "written") {
		t.Fatalf("a CA was added to the bundle: %v\n%s", err, out)
	}
	config, err := clientcmd.LoadFromFile(m.Path(machine.CCMKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if got := identity.Pins(config.Clusters["kubernetes"].CertificateAuthorityData); len(got) != 2 {
		t.Errorf("the kubeconfig trusts %d certificates, want both", len(got))
	}
}
