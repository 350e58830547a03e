package phases

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

const (
	tokenID     = "abcdef"
	tokenSecret = "0123456789abcdef"
	token       = tokenID + "." + tokenSecret
)

// publish runs the record phase with what is said, and takes its objects away when the test ends.
func publish(t *testing.T, m *machine.Machine, said config.CloudConfiguration) {
	t.Helper()
	if out, err := (phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}).Do(t, m, manager.Record()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		maps := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().ConfigMaps(v1alpha1.Namespace)
		for _, name := range []string{v1alpha1.RecordName, v1alpha1.AppliedName, v1alpha1.JournalName} {
			if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
}

func TestCluster_InitAgain_ComparesWithTheRecord(t *testing.T) {
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	publish(t, m, config.CloudConfiguration{Provider: "hetzner", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	for _, tt := range []struct {
		name    string
		said    config.CloudConfiguration
		wantErr string
	}{
		{name: "nothing said: the record holds"},
		{name: "the same", said: config.CloudConfiguration{Provider: "hetzner", Mode: config.ModeDaemonSet}},
		{
			name: "another provider", said: config.CloudConfiguration{Provider: "onprem"},
			wantErr: `init with provider "onprem": the cluster's record says "hetzner"`,
		},
		{
			name: "another mode", said: config.CloudConfiguration{Mode: config.ModeDeployment},
			wantErr: `init with mode "Deployment": the cluster's record says "DaemonSet"`,
		},
		{
			name: "another policy", said: config.CloudConfiguration{Lifecycle: config.LifecycleOff},
			wantErr: `init with lifecycle "Off": the cluster's record says "Guarded"`,
		},
		{
			name: "routes", said: config.CloudConfiguration{Routes: new(true)},
			wantErr: `init with routes "true": the cluster's record says "false"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := phasestest.Snapshot(t, m)
			r, _ := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: tt.said}}}.Must(t, m)
			phasestest.WantError(t, bootstrap.CheckClusterRecord(t.Context(), r), tt.wantErr, finding.ExitRefused)
			if s, err := r.Settings(t.Context()); err != nil || tt.wantErr == "" && s.Provider != "hetzner" {
				t.Errorf("settings are %+v, %v; want the record's", s, err)
			}
			if after := phasestest.Snapshot(t, m); len(after) != len(before) {
				t.Errorf("files changed: %v", after)
			}
		})
	}
}

// An image that cannot be pulled is corrected by the same command, as long as no node has come through with it.
func TestCluster_InitAgain_CorrectsAnImageThatNeverRan(t *testing.T) {
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	publish(t, m, config.CloudConfiguration{ClusterName: "ber1", ControllerManager: config.ControllerManager{Image: "wrong:1"}})
	said := config.CloudConfiguration{ControllerManager: config.ControllerManager{Image: "right:1"}}
	check := func(wantErr, wantImage string) {
		t.Helper()
		r, _ := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}.Must(t, m)
		phasestest.WantError(t, bootstrap.CheckClusterRecord(t.Context(), r), wantErr, finding.ExitRefused)
		if s, err := r.Settings(t.Context()); err != nil || wantErr == "" && s.ControllerManager.Image != wantImage {
			t.Errorf("image is %q, %v, want %q", s.ControllerManager.Image, err, wantImage)
		}
	}
	check(`init with controllerManager.image "right:1": the cluster's record says "wrong:1"`, "")
	machinetest.Put(t, m, machine.StateFile, strings.Replace(phasestest.StateAt(state.StageFinished), "initialized: true", "initialized: false", 1))
	check("", "right:1")
}

// A record that somebody has deleted is still on the machine.
func TestCluster_InitAgain_WithADeletedRecord(t *testing.T) {
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	publish(t, m, config.CloudConfiguration{Provider: "hetzner", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	maps := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().ConfigMaps(v1alpha1.Namespace)
	if err := maps.Delete(t.Context(), v1alpha1.RecordName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	s, err := r.Settings(t.Context())
	if err != nil || s.Provider != "hetzner" || s.Mode != config.ModeDaemonSet || s.ClusterName != "ber1" {
		t.Errorf("settings are %+v, %v; want those of the record", s, err)
	}
	r, _ = phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "onprem"}}}}.Must(t, m)
	phasestest.WantError(t, bootstrap.CheckClusterRecord(t.Context(), r), "the cluster's record says \"hetzner\"", finding.ExitRefused)
}

func TestCluster_InitAgain_WithoutAnAnswerNothingIsDone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"too many requests", status(http.StatusTooManyRequests), "429"},
		{"service unavailable", status(http.StatusServiceUnavailable), "server is currently unable to handle the request"},
		{"an identity that it does not know", status(http.StatusUnauthorized), "provide credentials"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.answer)
			t.Cleanup(server.Close)
			m, runner := phasestest.ControlPlaneMachine(t, &rest.Config{Host: server.URL})
			r, out := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			err := bootstrap.InitPreflight().Do(ctx, r)
			phasestest.WantError(t, err, "compare with the cluster's record: read ConfigMap/kube-system/ccmadm-config", finding.ExitRefused)
			if got := runner.RanKubeadm(); len(got) > 0 {
				t.Errorf("kubeadm was run: %q\n%s", got, out)
			}
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// offerJoin makes the tests' API server one that a machine can join: a bootstrap token, and cluster-info signed with it.
func offerJoin(t *testing.T) {
	t.Helper()
	ctx, client := t.Context(), kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	must := func(err error) {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	info := clientcmdapi.NewConfig()
	info.Clusters[""] = &clientcmdapi.Cluster{Server: phasestest.Cluster.Config.Host, CertificateAuthorityData: phasestest.Cluster.Config.CAData}
	text, err := clientcmd.Write(*info)
	must(err)
	signature, err := jws.ComputeDetachedSignature(string(text), tokenID, tokenSecret)
	must(err)
	_, err = client.CoreV1().Secrets(v1alpha1.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + tokenID}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": tokenID, "token-secret": tokenSecret, "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
		},
	}, metav1.CreateOptions{})
	must(err)
	_, err = client.CoreV1().ConfigMaps(metav1.NamespacePublic).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(text), "jws-kubeconfig-" + tokenID: signature},
	}, metav1.CreateOptions{})
	must(err)
	grant := func(namespace, name, resource, resourceName string, subject rbacv1.Subject) {
		_, err := client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{resourceName}}},
		}, metav1.CreateOptions{})
		must(err)
		_, err = client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}, metav1.CreateOptions{})
		must(err)
	}
	grant(metav1.NamespacePublic, "cluster-info", "configmaps", "cluster-info", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"})
	bootstrappers := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
	}, metav1.CreateOptions{})
	must(err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"}, Subjects: []rbacv1.Subject{bootstrappers},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubeadm:get-nodes"},
	}, metav1.CreateOptions{})
	must(err)
}

// join is a command line for the tests' API server.
func join(said config.CloudConfiguration, hash string) phasestest.Run {
	endpoint := strings.Trim(strings.TrimPrefix(phasestest.Cluster.Config.Host, "https://"), "/")
	return phasestest.Run{
		Inputs: workflow.Inputs{Role: kubeadm.RoleJoin, Request: workflow.Request{Flags: said}},
		Args:   []string{endpoint, "--token=" + token, "--discovery-token-ca-cert-hash=" + hash, "--node-name=w1"},
	}
}

func TestCluster_Join(t *testing.T) {
	offerJoin(t)
	cp, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	publish(t, cp, config.CloudConfiguration{ClusterName: "ber1", NodeIP: machinetest.Address})
	right := identity.Pins(phasestest.Cluster.Config.CAData)[0]
	for _, tt := range []struct {
		name     string
		said     config.CloudConfiguration
		hash     string
		wantErr  string
		wantCode finding.ExitCode
	}{
		{name: "with the right hash", hash: right},
		{
			name: "with another's hash", hash: "sha256:" + strings.Repeat("0", 64),
			wantErr: "verify the CA of", wantCode: finding.ExitPreflight,
		},
		{
			name: "with another provider", hash: right, said: config.CloudConfiguration{Provider: "aws"},
			wantErr: `join with provider "aws": the cluster's record says "onprem"`, wantCode: finding.ExitRefused,
		},
		{
			name: "with other arguments", hash: right,
			said:    config.CloudConfiguration{ControllerManager: config.ControllerManager{ExtraArgs: []string{"--v=9"}}},
			wantErr: `join with controllerManager.extraArgs "--v=9": the cluster's record says ""`, wantCode: finding.ExitRefused,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := machinetest.New(t)
			r, out := join(tt.said, tt.hash).Must(t, m)
			err := record.FetchRecord().Do(t.Context(), r)
			phasestest.WantError(t, err, tt.wantErr, tt.wantCode)
			if tt.wantErr != "" {
				if files := phasestest.Snapshot(t, m); len(files) > 0 {
					t.Errorf("files were written: %v", files)
				}
				return
			}
			for _, p := range []workflow.Phase{kubelet.Phase(), bootstrap.KubeadmJoin(), manager.JoinKubeconfig(), manager.JoinControlPlane()} {
				if err := p.Do(t.Context(), r); err != nil {
					t.Fatalf("%s: %v\n%s", p.Name, err, out)
				}
			}
			if got := runner.RanKubeadm(); len(got) != 1 || !strings.HasPrefix(got[0], "kubeadm join --config=/etc/ccmadm/kubeadm.yaml") {
				t.Errorf("kubeadm: %q", got)
			}
			if text := machinetest.Content(m, machine.KubeadmConfig); !strings.Contains(text, "cloud-provider") || strings.Contains(text, "node-ip\n      value: "+machinetest.Address) {
				t.Errorf("the first machine's own address is in kubeadm.yaml:\n%s", text)
			}
		})
	}
}

func TestCluster_Join_AManInTheMiddle(t *testing.T) {
	offerJoin(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().ConfigMaps(metav1.NamespacePublic)
	info, err := client.Get(t.Context(), "cluster-info", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forged := info.DeepCopy()
	forged.Data["kubeconfig"] = strings.Replace(info.Data["kubeconfig"], "server: https://", "server: https://evil.", 1)
	if _, err := client.Update(t.Context(), forged, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), "cluster-info", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	m, _ := machinetest.New(t)
	r, _ := join(config.CloudConfiguration{}, identity.Pins(phasestest.Cluster.Config.CAData)[0]).Must(t, m)
	phasestest.WantError(t, record.FetchRecord().Do(t.Context(), r), "use bootstrap token abcdef", finding.ExitPreflight)
}

func TestCluster_Join_OfAMemberOfAnotherCluster(t *testing.T) {
	offerJoin(t)
	cp, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	publish(t, cp, config.CloudConfiguration{ClusterName: "ber1"})
	m, _ := machinetest.New(t)
	other := *phasestest.Cluster.Config
	other.CAData = []byte(phasestest.ReadCA(t, machinetest.NewCA(t)))
	machinetest.Put(t, m, machine.KubeletConf, phasestest.KubeconfigText(t, &other))
	r, _ := join(config.CloudConfiguration{}, identity.Pins(phasestest.Cluster.Config.CAData)[0]).Must(t, m)
	phasestest.WantError(t, record.FetchRecord().Do(t.Context(), r), "this machine is a node of another one", finding.ExitRefused)
}
