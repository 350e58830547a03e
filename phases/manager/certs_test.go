package manager

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// identityMachine is a control plane whose static pod has an identity of today.
func identityMachine(t *testing.T) *machine.Machine {
	t.Helper()
	m, _ := machinetest.New(t)
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	if _, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.ControllerManagerConf, machinetest.Content(m, machine.CCMKubeconfig))
	machinetest.Put(t, m, machine.CCMManifest, string(Seal([]byte("metadata: {annotations: {a: b}}\n"))))
	return m
}

func renew(t *testing.T, m *machine.Machine, within time.Duration) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := RenewCertificates(t.Context(), record.NewBare(m, workflow.Inputs{}, workflow.Streams{Out: &out, Err: &out}, "test").Env, within)
	return out.String(), err
}

func TestRenewCertificates(t *testing.T) {
	const within = 30 * 24 * time.Hour
	for _, tt := range []struct {
		name   string
		given  func(*testing.T, *machine.Machine)
		within time.Duration
		want   string // in the output
		kept   bool   // the file is
	}{
		{name: "asked for", want: "cloud-controller-manager.conf written"},
		{name: "it lasts", within: within, want: "cloud-controller-manager.conf unchanged", kept: true},
		{
			name: "near its end",
			given: func(_ *testing.T, m *machine.Machine) {
				m.Now = func() time.Time { return phasestest.Now.AddDate(0, 0, 340) }
			},
			within: within, want: "its certificate ends on 2027-11-21",
		},
		{
			name: "after its end",
			given: func(_ *testing.T, m *machine.Machine) {
				m.Now = func() time.Time { return phasestest.Now.AddDate(2, 0, 0) }
			},
			within: within, want: "its certificate ends on 2027-11-21",
		},
		{
			name: "a CA was added to the bundle",
			given: func(t *testing.T, m *machine.Machine) {
				machinetest.Put(t, m, machine.PKIDir+"/ca.crt", machinetest.Content(m, machine.PKIDir+"/ca.crt")+phasestest.ReadCA(t, machinetest.NewCA(t)))
			},
			within: within, want: "does not trust the same CAs",
		},
		{
			name: "the next CA signs, and the former is the first of the bundle",
			given: func(t *testing.T, m *machine.Machine) {
				former := machinetest.Content(m, machine.PKIDir+"/ca.crt")
				next := machinetest.NewCA(t)
				copyKey(t, next, m)
				machinetest.Put(t, m, machine.PKIDir+"/ca.crt", former+phasestest.ReadCA(t, next))
			},
			within: within, want: "does not trust the same CAs",
		},
		{
			name:   "the file is gone",
			given:  func(t *testing.T, m *machine.Machine) { mustRemove(t, m, machine.CCMKubeconfig) },
			within: within, want: "no such file",
		},
		{
			name: "the file was cut short",
			given: func(t *testing.T, m *machine.Machine) {
				machinetest.Put(t, m, machine.CCMKubeconfig, "apiVersion: v1\n")
			},
			within: within, want: "is renewed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := identityMachine(t)
			if tt.given != nil {
				tt.given(t, m)
			}
			before := machinetest.Content(m, machine.CCMKubeconfig)
			out, err := renew(t, m, tt.within)
			if err != nil || !strings.Contains(out, tt.want) {
				t.Fatalf("%v\n%s, want %q", err, out, tt.want)
			}
			if kept := machinetest.Content(m, machine.CCMKubeconfig) == before; kept != tt.kept {
				t.Errorf("kept the file: %t, want %t", kept, tt.kept)
			}
			at := m.Now().Add(300 * 24 * time.Hour)
			if err := identity.Flaw(m.Path(machine.CCMKubeconfig), m.Path(machine.PKIDir+"/ca.crt"), "", at); err != nil {
				t.Errorf("the new one: %v", err)
			}
			if !strings.Contains(machinetest.Content(m, machine.CCMManifest), digest([]byte(machinetest.Content(m, machine.CCMKubeconfig)))) {
				t.Error("the pod would keep the former identity")
			}
		})
	}
}

// A dry run says that the pod starts again, too: that ends its lead.
func TestRenewCertificates_DryRun(t *testing.T) {
	for name, given := range map[string]func(*machine.Machine){
		"a new certificate": func(*machine.Machine) {},
		"a token, and another CA": func(m *machine.Machine) {
			ca := machinetest.Content(m, machine.PKIDir+"/ca.crt")
			machinetest.Put(t, m, machine.CCMKubeconfig, phasestest.TokenKubeconfig([]byte(ca)))
			machinetest.Put(t, m, machine.PKIDir+"/ca.crt", ca+phasestest.ReadCA(t, machinetest.NewCA(t)))
		},
	} {
		m := identityMachine(t)
		if err := RestampStaticPod(record.NewBare(m, workflow.Inputs{}, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test").Env); err != nil {
			t.Fatal(err)
		}
		given(m)
		before := phasestest.Snapshot(t, m)
		var out bytes.Buffer
		env := record.NewBare(m, workflow.Inputs{DryRun: true}, workflow.Streams{Out: &out, Err: &out}, "test").Env
		if err := RenewCertificates(t.Context(), env, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, phasestest.Snapshot(t, m)); diff != "" {
			t.Errorf("%s: a dry run changed (-before +after):\n%s", name, diff)
		}
		for _, path := range []string{machine.CCMKubeconfig, machine.CCMManifest} {
			if !strings.Contains(out.String(), "would write "+path) {
				t.Errorf("%s: nothing is said of %s:\n%s", name, path, out.String())
			}
		}
	}
}

// As the guide says it: the bundle first, then the key, and the same command after each.
func TestRenewCertificates_RotationStepByStep(t *testing.T) {
	const within = 30 * 24 * time.Hour
	m, next := identityMachine(t), machinetest.NewCA(t)
	signedBy := func(dir string) error {
		ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			return err
		}
		cas, err := certutil.ParseCertsPEM(ca)
		if err != nil {
			return err
		}
		cert, err := identity.ClientCertificate(m, machine.CCMKubeconfig)
		if err != nil {
			return err
		}
		return cert.CheckSignatureFrom(cas[0])
	}
	machinetest.Put(t, m, machine.PKIDir+"/ca.crt", machinetest.Content(m, machine.PKIDir+"/ca.crt")+phasestest.ReadCA(t, next))
	if out, err := renew(t, m, within); err != nil || signedBy(m.Path(machine.PKIDir)) != nil {
		t.Fatalf("the bundle: %v\n%s", err, out)
	}
	copyKey(t, next, m)
	out, err := renew(t, m, within)
	if err != nil || signedBy(next) != nil || !strings.Contains(out, "signed by a former CA") {
		t.Fatalf("the key: %v, %v\n%s", err, signedBy(next), out)
	}
	if out, err := renew(t, m, within); err != nil || !strings.Contains(out, "unchanged") {
		t.Errorf("once more: %v\n%s", err, out)
	}
}

// A CA that ends soon, and signs still beside the next one, gives nothing that lasts longer: it is not asked each day.
func TestRenewCertificates_TheSigningCAEnds(t *testing.T) {
	const within = 30 * 24 * time.Hour
	m := identityMachine(t)
	cas, err := certutil.CertsFromFile(m.Path(machine.PKIDir + "/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	m.Now = func() time.Time { return cas[0].NotAfter.AddDate(0, 0, -10) }
	next := certutil.Config{CommonName: "next", NotBefore: cas[0].NotAfter.AddDate(0, 0, -20)}
	later, err := certutil.NewSelfSignedCACert(next, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	block := pem.Block{Type: certutil.CertificateBlockType, Bytes: later.Raw}
	bundle := machinetest.Content(m, machine.PKIDir+"/ca.crt") + string(pem.EncodeToMemory(&block))
	machinetest.Put(t, m, machine.PKIDir+"/ca.crt", bundle)
	if out, err := renew(t, m, within); err != nil || !strings.Contains(out, "is renewed") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := renew(t, m, within); err != nil || !strings.Contains(out, "unchanged") {
		t.Errorf("the next day: %v\n%s", err, out)
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A token of the administrator's lasts: it is told of the CAs, and nothing else.
func TestRenewCertificates_KeepsATokenWhenTheCAChanges(t *testing.T) {
	m := identityMachine(t)
	ca := machinetest.Content(m, machine.PKIDir+"/ca.crt")
	machinetest.Put(t, m, machine.CCMKubeconfig, phasestest.TokenKubeconfig([]byte(ca)))
	bundle := ca + phasestest.ReadCA(t, machinetest.NewCA(t))
	machinetest.Put(t, m, machine.PKIDir+"/ca.crt", bundle)
	for _, do := range []func() (string, error){
		func() (string, error) { return renew(t, m, 30*24*time.Hour) },
		func() (string, error) { return phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, Kubeconfig()) },
	} {
		if out, err := do(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		config, err := clientcmd.BuildConfigFromFlags("", m.Path(machine.CCMKubeconfig))
		if err != nil || config.BearerToken == "" || !identity.SameCerts(config.CAData, []byte(bundle)) {
			t.Errorf("the identity is %v, %v", config, err)
		}
	}
}

func TestRenewCertificates_KeepsModeAndServer(t *testing.T) {
	m := identityMachine(t)
	path := m.Path(machine.CCMKubeconfig)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	mustRemove(t, m, machine.ControllerManagerConf)
	before, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := renew(t, m, 0); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("mode %v, %v, want that of before, 0400", info.Mode(), err)
	}
	if after, err := clientcmd.BuildConfigFromFlags("", path); err != nil || after.Host != before.Host {
		t.Errorf("it connects to %s, %v, want %s as before", after.Host, err, before.Host)
	}
}

func TestRenewCertificates_Refuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		given   func(*testing.T, *machine.Machine)
		within  time.Duration
		wantErr string
		code    finding.ExitCode
	}{
		{
			name: "a machine without one",
			given: func(t *testing.T, m *machine.Machine) {
				mustRemove(t, m, machine.CCMKubeconfig)
				mustRemove(t, m, machine.CCMManifest)
			},
			wantErr: "this machine has none of ccmadm's", code: finding.ExitPreflight,
		},
		{
			name:    "an external CA",
			given:   func(t *testing.T, m *machine.Machine) { mustRemove(t, m, machine.PKIDir+"/ca.key") },
			wantErr: "has no ca.key", code: finding.ExitRefused,
		},
		{
			name: "an external CA, near the end",
			given: func(t *testing.T, m *machine.Machine) {
				mustRemove(t, m, machine.PKIDir+"/ca.key")
				m.Now = func() time.Time { return phasestest.Now.AddDate(0, 0, 340) }
			},
			within: 30 * 24 * time.Hour, wantErr: "has no ca.key", code: finding.ExitRefused,
		},
		{
			name: "a token of the administrator's",
			given: func(t *testing.T, m *machine.Machine) {
				machinetest.Put(t, m, machine.CCMKubeconfig, phasestest.TokenKubeconfig([]byte(machinetest.Content(m, machine.PKIDir+"/ca.crt"))))
				machinetest.Put(t, m, machine.ControllerManagerConf, machinetest.Content(m, machine.CCMKubeconfig))
			},
			wantErr: "has a token", code: finding.ExitRefused,
		},
		{
			name:    "a key of another CA",
			given:   func(t *testing.T, m *machine.Machine) { copyKey(t, machinetest.NewCA(t), m) },
			wantErr: "ca.key is the key of no certificate in ca.crt", code: finding.ExitError,
		},
		{
			name:    "not root",
			given:   func(_ *testing.T, m *machine.Machine) { m.Superuser = false },
			wantErr: "not root", code: finding.ExitPreflight,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := identityMachine(t)
			tt.given(t, m)
			before := phasestest.Snapshot(t, m)
			_, err := renew(t, m, tt.within)
			phasestest.WantError(t, err, tt.wantErr, tt.code)
			if after := phasestest.Snapshot(t, m); !maps.Equal(before, after) {
				t.Error("files were changed")
			}
		})
	}
}

func TestCheckExpiration(t *testing.T) {
	m := identityMachine(t)
	machinetest.Put(t, m, machine.PKIDir+"/ca.crt", machinetest.Content(m, machine.PKIDir+"/ca.crt")+phasestest.ReadCA(t, machinetest.NewCA(t)))
	machinetest.Put(t, m, machine.VIPManifest, "x")
	list, err := identity.CheckExpiration(t.Context(), m)
	if err != nil || len(list.Certificates) != 1 {
		t.Fatalf("got %+v, %v, want one certificate: by BGP the address's pod borrows none", list, err)
	}
	machinetest.Put(t, m, machine.VIPMembers, "x")
	if list, err = identity.CheckExpiration(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if len(list.Certificates) != 2 || len(list.Authorities) != 2 {
		t.Fatalf("got %+v, want two certificates, and two CAs while one is rotated", list)
	}
	own, vip := list.Certificates[0], list.Certificates[1]
	if days := own.Residual / 86400; days != 365 || !strings.Contains(own.Flaw, "same CAs") || own.Renew != "ccmadm certs renew" {
		t.Errorf("the static pod's: %+v, want a year, and that it lags behind the CA", own)
	}
	if !vip.Missing || vip.Renew != "kubeadm certs renew scheduler.conf" {
		t.Errorf("that of the control plane's address: %+v, want missing, and kubeadm's", vip)
	}
	mustRemove(t, m, machine.PKIDir+"/ca.key")
	if list, err = identity.CheckExpiration(t.Context(), m); err != nil || !list.Certificates[0].ExternallyManaged {
		t.Errorf("with an external CA: %+v, %v", list.Certificates[0], err)
	}
}
