package phases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/machine"
)

func TestExternalCA(t *testing.T) {
	ca := newCA(t)
	m, _ := newMachine(t)
	copyCA(t, ca, m.Path(machine.PKIDir))
	if err := os.Remove(m.Path(machine.PKIDir + "/ca.key")); err != nil {
		t.Fatal(err)
	}
	d, _ := run{config: initConfig}.must(t, m)
	wantError(t, checkExternalCA(t.Context(), d), "has no ca.key", finding.ExitUsage)

	bundle, err := os.ReadFile(filepath.Join(ca, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, m, machine.CCMKubeconfig, tokenKubeconfig(bundle))
	wantError(t, checkExternalCA(t.Context(), d), "", 0)
	if out, err := (run{config: initConfig}).do(t, m, kubeconfig()); err != nil || !strings.Contains(out, "unchanged") {
		t.Errorf("the administrator's own identity: %v\n%s", err, out)
	}
	byPaths(t, m, ca)
	wantError(t, checkExternalCA(t.Context(), d), "", 0)
	if err := os.Remove(m.Path("/etc/kubernetes/ccm.crt")); err != nil {
		t.Fatal(err)
	}
	wantError(t, checkExternalCA(t.Context(), d), "holds none that lasts", finding.ExitUsage)
}

// byPaths gives the machine a kubeconfig that names its certificate and key, beside it.
func byPaths(t *testing.T, m *machine.Machine, ca string) {
	t.Helper()
	signed, err := signKubeconfig(ca, "https://lb.example:6443", now)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(signed)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		put(t, m, "/etc/kubernetes/ccm.crt", string(user.ClientCertificateData))
		put(t, m, "/etc/kubernetes/ccm.key", string(user.ClientKeyData))
		user.ClientCertificateData, user.ClientKeyData = nil, nil
		user.ClientCertificate, user.ClientKey = "ccm.crt", "ccm.key"
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	put(t, m, machine.CCMKubeconfig, string(data))
}
