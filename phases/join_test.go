package phases

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestHasJoined(t *testing.T) {
	for _, tt := range []struct {
		name    string
		code    int
		want    bool
		wantErr string
	}{
		{name: "no such Node", code: http.StatusNotFound},
		{name: "an identity that it does not know", code: http.StatusUnauthorized},
		{name: "cannot be asked", code: http.StatusServiceUnavailable, wantErr: "ask for Node/w1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(status(tt.code))
			t.Cleanup(server.Close)
			m, _ := machinetest.New(t)
			machinetest.Put(t, m, machine.KubeletConf, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
				"users: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: '"+server.URL+"'}}]\n")
			r, _ := phasestest.Run{Config: phasestest.JoinConfig, Inputs: workflow.Inputs{Role: kubeadm.RoleJoin}}.Must(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			got, err := workflow.HasJoined(ctx, r.Host)
			phasestest.WantError(t, err, tt.wantErr, finding.ExitError)
			if got != tt.want {
				t.Errorf("joined = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestJoin_DiscoveryFileAtAnAddress(t *testing.T) {
	kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://198.18.0.9:6443'}}]\n"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(kubeconfig)) }))
	t.Cleanup(server.Close)
	file, err := kubeadm.Parse("k.yaml", []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {file: {kubeConfigPath: '"+server.URL+"'}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = kubeadm.JoinServer(t.Context(), file)
	var unknown *tls.CertificateVerificationError
	if !errors.As(err, &unknown) {
		t.Errorf("got %v: an address whose certificate nobody vouches for is believed", err)
	}
	path := t.TempDir() + "/discovery.conf"
	m, _ := machinetest.New(t)
	m.Root = "/"
	machinetest.Put(t, m, path, kubeconfig)
	if file, err = kubeadm.Parse("k.yaml", []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {file: {kubeConfigPath: "+path+"}}\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := kubeadm.JoinServer(t.Context(), file); err != nil || got != "198.18.0.9:6443" {
		t.Errorf("got %q, %v, want the API server of the file, to which the node's route goes", got, err)
	}
}

func TestAnyAddress(t *testing.T) {
	m, _ := machinetest.New(t)
	r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	for _, tt := range []struct{ subnets, want string }{
		{"", "0.0.0.0"}, {"10.244.0.0/16", "0.0.0.0"}, {"fd00:10::/56", "::"}, {"fd00:10::/56,10.244.0.0/16", "0.0.0.0"},
	} {
		if got, err := record.NodeIP(t.Context(), r.Host, &config.CloudConfiguration{NodeIP: config.NodeIPDefault}, tt.subnets); err != nil || got != tt.want {
			t.Errorf("pod subnets %q: got %q, %v, want %q", tt.subnets, got, err, tt.want)
		}
	}
}

// An init that is resumed finds the control plane's own address on the machine, in front of the machine's.
func TestNodeIP_NotTheControlPlanes(t *testing.T) {
	m, _ := machinetest.New(t)
	vip := netip.MustParseAddr("198.18.0.2")
	m.Interfaces = func() ([][]netip.Addr, error) {
		return [][]netip.Addr{{vip}, {netip.MustParseAddr(machinetest.Address)}}, nil
	}
	r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	c := &config.CloudConfiguration{NodeIP: "198.18.0.0/24", ControlPlaneVIP: config.ControlPlaneVIP{Address: vip.String()}}
	if got, err := record.NodeIP(t.Context(), r.Host, c, ""); err != nil || got != machinetest.Address {
		t.Errorf("got %q, %v, want %s", got, err, machinetest.Address)
	}
	c.NodeIP = "198.18.0.2/32"
	if got, err := record.NodeIP(t.Context(), r.Host, c, ""); err == nil {
		t.Errorf("got %q, the control plane's own", got)
	}
}

// A control plane that joins finds the CA where the first one keeps it.
func TestJoinKubeconfig_OfACertificatesDirOfItsOwn(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path("/srv/pki"))
	machinetest.Put(t, m, machine.RecordFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\ncertificatesDir: /srv/pki\nconfiguration: {provider: onprem, mode: StaticPod}\n")
	r := phasestest.Run{Config: phasestest.JoinConfig + "controlPlane: {localAPIEndpoint: {advertiseAddress: " + machinetest.Address + "}}\n", Inputs: workflow.Inputs{Role: kubeadm.RoleJoin}}
	if out, err := r.Do(t, m, manager.JoinKubeconfig()); err != nil || !strings.Contains(out, "cloud-controller-manager.conf written") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCluster_Heartbeats(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "heart"}}
	at := time.Now()
	if alive, err := record.Heartbeats(t.Context(), client, node, at); err != nil || alive {
		t.Errorf("without a Lease: %t, %v", alive, err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "heart"}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at}}}
	if _, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {30 * time.Second, true}, {time.Minute, false}} {
		if alive, err := record.Heartbeats(t.Context(), client, node, at.Add(tt.after)); err != nil || alive != tt.want {
			t.Errorf("%s after the last one: alive = %t, %v, want %t", tt.after, alive, err, tt.want)
		}
	}
}
