package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

const (
	preflightOf = "kubeadm init phase preflight --config=/etc/ccmadm/kubeadm.yaml"
	firstHalf   = "kubeadm init --config=/etc/ccmadm/kubeadm.yaml --skip-phases=preflight," +
		"upload-config,upload-certs,mark-control-plane,bootstrap-token,kubelet-finalize,addon,show-join-command"
	secondHalf = "kubeadm init --config=/etc/ccmadm/kubeadm.yaml --skip-phases=" +
		"preflight,certs,kubeconfig,etcd,control-plane,kubelet-start,wait-control-plane,show-join-command"
)

func TestKubeadmInit_HalvesByStage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
		stage string
	}{
		{
			name:  "a new machine",
			want:  []string{preflightOf, firstHalf, secondHalf},
			stage: "Finished",
		},
		{
			name:  "cut short in the first half",
			files: map[string]string{machine.StateFile: phasestest.StateAt(state.StageBegun), machine.APIServerPod: "x"},
			want:  []string{firstHalf, secondHalf},
			stage: "Finished",
		},
		{
			name:  "cut short between the halves",
			files: map[string]string{machine.StateFile: phasestest.StateAt(state.StageControlPlane)},
			want:  []string{secondHalf},
			stage: "Finished",
		},
		{
			name:  "finished",
			files: map[string]string{machine.StateFile: phasestest.StateAt(state.StageFinished)},
			stage: "Finished",
		},
		{
			name: "finished by a ccmadm that kept no state",
			files: map[string]string{
				machine.KubeletConf: "x", machine.KubeletConfig: "x", machine.KubeadmConfig: phasestest.InitConfig,
				machine.RecordFile: "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\n",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := machinetest.New(t)
			for path, text := range tt.files {
				machinetest.Put(t, m, path, text)
			}
			for _, p := range []workflow.Phase{bootstrap.KubeadmControlPlane(), bootstrap.KubeadmFinish()} {
				if out, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, p); err != nil {
					t.Fatalf("%s: %v\n%s", p.Name, err, out)
				}
			}
			if diff := cmp.Diff(tt.want, runner.RanKubeadm()); diff != "" {
				t.Errorf("kubeadm (-want +got):\n%s", diff)
			}
			if !strings.Contains(machinetest.Content(m, machine.StateFile), tt.stage) {
				t.Errorf("state is %q, want stage %s", machinetest.Content(m, machine.StateFile), tt.stage)
			}
		})
	}
}

func TestKubeadmInit_AFailureGoesOnFromThere(t *testing.T) {
	m, runner := machinetest.New(t)
	fail := func(prefix, wantStage string) {
		t.Helper()
		runner.Fails[prefix] = errors.New("exit status 1")
		_, err := phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, bootstrap.KubeadmControlPlane())
		delete(runner.Fails, prefix)
		var known *finding.Error
		if !errors.As(err, &known) || !strings.Contains(known.Hint, "it resumes here") {
			t.Fatalf("got %v, want an error that says how to go on", err)
		}
		if state := machinetest.Content(m, machine.StateFile); !strings.Contains(state, wantStage) || wantStage == "" && state != "" {
			t.Errorf("state is %q, want %q", state, wantStage)
		}
	}
	fail(preflightOf, "") // kubeadm's preflight is asked again: nothing has begun
	fail(firstHalf, "stage: Begun")
	if _, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, bootstrap.KubeadmControlPlane()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{preflightOf, preflightOf, firstHalf, firstHalf}, runner.RanKubeadm()); diff != "" {
		t.Errorf("kubeadm (-want +got):\n%s", diff)
	}
}

// Phases that are run by themselves on a control plane that somebody else made.
func TestKubeadmPhases_OnAForeignControlPlane(t *testing.T) {
	m, runner := machinetest.New(t)
	machinetest.Put(t, m, machine.APIServerPod, "x")
	machinetest.Put(t, m, machine.KubeadmConfig, phasestest.InitConfig)
	for range 2 {
		_, err := phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, bootstrap.KubeadmControlPlane())
		phasestest.WantError(t, err, "this machine runs a control plane, or did", finding.ExitUsage)
		_, err = phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, bootstrap.KubeadmFinish())
		phasestest.WantError(t, err, "does not record that phase kubeadm-control-plane has finished", finding.ExitRefused)
	}
	if got := runner.RanKubeadm(); len(got) > 0 {
		t.Errorf("kubeadm was run: %q", got)
	}
}

func TestKubeadmJoin_OnAControlPlaneOfInit(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.KubeletConf, "x")
	machinetest.Put(t, m, machine.StateFile, phasestest.StateAt(state.StageFinished))
	_, err := phasestest.Run{Config: phasestest.JoinConfig, Inputs: workflow.Inputs{Role: kubeadm.RoleJoin}}.Do(t, m, bootstrap.KubeadmJoin())
	phasestest.WantError(t, err, "join on a machine of `ccmadm init`", finding.ExitRefused)
	if got := machinetest.Content(m, machine.StateFile); got != phasestest.StateAt(state.StageFinished) {
		t.Errorf("the state is now\n%s", got)
	}
}

// A second run does not have the first one's flags.
func TestLocalServer_OfASecondRun(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.ControllerManagerConf, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"users: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: 'https://10.0.0.5:7443'}}]\n")
	machinetest.Put(t, m, machine.StateFile, phasestest.StateAt(state.StageFinished))
	r, _ := phasestest.Run{}.Must(t, m)
	if got := workflow.LocalServer(r.Host); got != "https://10.0.0.5:7443" {
		t.Errorf("got %s, want what kubeadm gave the other components", got)
	}
	if got, err := workflow.NodeName(r.Host); err != nil || got != "cp1" {
		t.Errorf("node name %q, %v, want that of the first run", got, err)
	}
}

func TestCheckKubeletInUse(t *testing.T) {
	for _, tt := range []struct {
		name     string
		files    map[string]string
		config   string
		wantErr  string
		wantCode finding.ExitCode
	}{
		{name: "an empty machine"},
		{
			name:     "a node of somebody else's cluster",
			files:    map[string]string{machine.KubeletConf: "x"},
			wantErr:  "kubelet.conf exists: this machine is registered with a cluster already",
			wantCode: finding.ExitUsage,
		},
		{
			name:     "a control plane of kubeadm's, after the phase kubeadm-config alone",
			files:    map[string]string{machine.APIServerPod: "x", machine.KubeadmConfig: phasestest.InitConfig},
			wantErr:  "kube-apiserver.yaml exists: this machine runs a control plane, or did",
			wantCode: finding.ExitUsage,
		},
		{
			name:     "half a join of somebody else's",
			files:    map[string]string{machine.BootstrapConf: "x"},
			wantErr:  "bootstrap-kubelet.conf exists: this machine has begun to join a cluster",
			wantCode: finding.ExitUsage,
		},
		{
			name:  "the second run of a finished one",
			files: map[string]string{machine.KubeletConf: "x", machine.StateFile: phasestest.StateAt(state.StageFinished)},
		},
		{
			name:     "under another name",
			files:    map[string]string{machine.KubeletConf: "x", machine.StateFile: phasestest.StateAt(state.StageFinished)},
			config:   strings.Replace(phasestest.InitConfig, "cp1", "cp9", 1),
			wantErr:  `nodeRegistration.name is "cp9": this machine is Node/cp1`,
			wantCode: finding.ExitRefused,
		},
		{
			name: "in another role",
			files: map[string]string{
				machine.KubeletConf: "x",
				machine.StateFile:   strings.Replace(phasestest.StateAt(state.StageFinished), "role: init", "role: join", 1),
			},
			wantErr:  "init on a machine of `ccmadm join`",
			wantCode: finding.ExitRefused,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			for path, text := range tt.files {
				machinetest.Put(t, m, path, text)
			}
			if tt.config == "" {
				tt.config = phasestest.InitConfig
			}
			r, _ := phasestest.Run{Config: tt.config}.Must(t, m)
			phasestest.WantError(t, record.CheckKubeletInUse(t.Context(), r), tt.wantErr, tt.wantCode)
		})
	}
}

func TestNew_RefusesAFileOfAnotherCommand(t *testing.T) {
	for _, tt := range []struct {
		name    string
		role    kubeadm.Role
		config  string
		wantErr string
	}{
		{
			name:    "a JoinConfiguration for init",
			config:  phasestest.JoinConfig,
			wantErr: "no InitConfiguration or ClusterConfiguration kind was found in it, only JoinConfiguration",
		},
		{
			name:    "a kind that is misspelled",
			config:  "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguraton\n",
			wantErr: "only InitConfiguraton",
		},
		{
			name:    "an InitConfiguration for join",
			role:    kubeadm.RoleJoin,
			config:  phasestest.InitConfig,
			wantErr: "no JoinConfiguration kind was found in it, only InitConfiguration",
		},
		{name: "our own document alone", config: "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"},
		{name: "a ClusterConfiguration alone", config: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			_, _, err := phasestest.Run{Config: tt.config, Inputs: workflow.Inputs{Role: tt.role}}.Data(t, m)
			phasestest.WantError(t, err, tt.wantErr, finding.ExitUsage)
		})
	}
}

func TestKubeadmConfig(t *testing.T) {
	m, _ := machinetest.New(t)
	out, err := phasestest.Run{Config: "# mine\n" + phasestest.InitConfig}.Do(t, m, bootstrap.KubeadmConfig())
	if err != nil {
		t.Fatal(err)
	}
	written := machinetest.Content(m, machine.KubeadmConfig)
	for _, want := range []string{"# mine", "cloud-provider", `"node-ip", "value": "` + machinetest.Address} {
		if !strings.Contains(written, want) {
			t.Errorf("kubeadm.yaml has no %q:\n%s", want, written)
		}
	}
	if !strings.Contains(machinetest.Content(m, machine.RecordFile), "provider: onprem") {
		t.Errorf("the record has no provider:\n%s", machinetest.Content(m, machine.RecordFile))
	}
	before := phasestest.Snapshot(t, m)
	again, err := phasestest.Run{Config: "# mine\n" + phasestest.InitConfig}.Do(t, m, bootstrap.KubeadmConfig())
	if err != nil || !strings.Contains(again, "kubeadm.yaml unchanged") {
		t.Errorf("the second run: %v\n%s", err, again)
	}
	if diff := cmp.Diff(before, phasestest.Snapshot(t, m)); diff != "" {
		t.Errorf("the second run changed files (-before +after):\n%s\n%s", diff, out)
	}
}

func TestKubeadmConfig_OfAFinishedMachineStays(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.StateFile, phasestest.StateAt(state.StageFinished))
	machinetest.Put(t, m, machine.KubeadmConfig, "what kubeadm was given\n")
	r, out := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	if err := bootstrap.KubeadmConfig().Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := machinetest.Content(m, machine.KubeadmConfig); got != "what kubeadm was given\n" || !strings.Contains(out.String(), "unchanged") {
		t.Errorf("kubeadm.yaml is %q; said %q", got, out)
	}
}
