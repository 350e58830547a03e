package phases

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

const (
	preflightOf = "kubeadm init phase preflight --config=/etc/ccmadm/kubeadm.yaml"
	firstHalf   = "kubeadm init --config=/etc/ccmadm/kubeadm.yaml --skip-phases=preflight," +
		"upload-config,upload-certs,mark-control-plane,bootstrap-token,kubelet-finalize,addon,show-join-command"
	secondHalf = "kubeadm init --config=/etc/ccmadm/kubeadm.yaml --skip-phases=" +
		"preflight,certs,kubeconfig,etcd,control-plane,kubelet-start,wait-control-plane,show-join-command"
)

// state is a machine.yaml at a stage.
func stateAt(stage v1alpha1.Stage) string {
	return "apiVersion: ccmadm.dev/v1alpha1\nkind: LocalState\nrole: init\nnodeName: cp1\nstage: " + string(stage) + "\ninitialized: true\n"
}

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
			files: map[string]string{machine.StateFile: stateAt(v1alpha1.StageBegun), machine.APIServerPod: "x"},
			want:  []string{firstHalf, secondHalf},
			stage: "Finished",
		},
		{
			name:  "cut short between the halves",
			files: map[string]string{machine.StateFile: stateAt(v1alpha1.StageControlPlane)},
			want:  []string{secondHalf},
			stage: "Finished",
		},
		{
			name:  "finished",
			files: map[string]string{machine.StateFile: stateAt(v1alpha1.StageFinished)},
			stage: "Finished",
		},
		{
			name: "finished by a ccmadm that kept no state",
			files: map[string]string{
				machine.KubeletConf: "x", machine.KubeletConfig: "x", machine.KubeadmConfig: initConfig,
				machine.RecordFile: "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\n",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := machinetest.New(t)
			for path, text := range tt.files {
				machinetest.Put(t, m, path, text)
			}
			for _, p := range []Phase{kubeadmControlPlane(), kubeadmFinish()} {
				if out, err := (run{config: initConfig}).do(t, m, p); err != nil {
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
		_, err := run{config: initConfig}.do(t, m, kubeadmControlPlane())
		delete(runner.Fails, prefix)
		var known *finding.Error
		if !errors.As(err, &known) || !strings.Contains(known.Hint, "goes on from here") {
			t.Fatalf("got %v, want an error that says how to go on", err)
		}
		if state := machinetest.Content(m, machine.StateFile); !strings.Contains(state, wantStage) || wantStage == "" && state != "" {
			t.Errorf("state is %q, want %q", state, wantStage)
		}
	}
	fail(preflightOf, "") // kubeadm's preflight is asked again: nothing has begun
	fail(firstHalf, "stage: Begun")
	if _, err := (run{config: initConfig}).do(t, m, kubeadmControlPlane()); err != nil {
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
	machinetest.Put(t, m, machine.KubeadmConfig, initConfig)
	for range 2 {
		_, err := run{config: initConfig}.do(t, m, kubeadmControlPlane())
		wantError(t, err, "this machine runs a control plane, or did", finding.ExitUsage)
		_, err = run{config: initConfig}.do(t, m, kubeadmFinish())
		wantError(t, err, "does not say that its first half has ended here", finding.ExitRefused)
	}
	if got := runner.RanKubeadm(); len(got) > 0 {
		t.Errorf("kubeadm was run: %q", got)
	}
}

func TestKubeadmJoin_OnAControlPlaneOfInit(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.KubeletConf, "x")
	machinetest.Put(t, m, machine.StateFile, stateAt(v1alpha1.StageFinished))
	_, err := run{config: joinConfig, options: Options{Role: kubeadm.RoleJoin}}.do(t, m, kubeadmJoin())
	wantError(t, err, "join on a machine of `ccmadm init`", finding.ExitRefused)
	if got := machinetest.Content(m, machine.StateFile); got != stateAt(v1alpha1.StageFinished) {
		t.Errorf("the state is now\n%s", got)
	}
}

// A second run does not have the first one's flags.
func TestLocalServer_OfASecondRun(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.ControllerManagerConf, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"users: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: 'https://10.0.0.5:7443'}}]\n")
	machinetest.Put(t, m, machine.StateFile, stateAt(v1alpha1.StageFinished))
	d, _ := run{}.must(t, m)
	if got := localServer(d); got != "https://10.0.0.5:7443" {
		t.Errorf("got %s, want what kubeadm gave the other components", got)
	}
	if got, err := nodeName(d); err != nil || got != "cp1" {
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
			files:    map[string]string{machine.APIServerPod: "x", machine.KubeadmConfig: initConfig},
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
			files: map[string]string{machine.KubeletConf: "x", machine.StateFile: stateAt(v1alpha1.StageFinished)},
		},
		{
			name:     "under another name",
			files:    map[string]string{machine.KubeletConf: "x", machine.StateFile: stateAt(v1alpha1.StageFinished)},
			config:   strings.Replace(initConfig, "cp1", "cp9", 1),
			wantErr:  `nodeRegistration.name is "cp9": this machine is Node/cp1`,
			wantCode: finding.ExitRefused,
		},
		{
			name: "in another role",
			files: map[string]string{
				machine.KubeletConf: "x",
				machine.StateFile:   strings.Replace(stateAt(v1alpha1.StageFinished), "role: init", "role: join", 1),
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
				tt.config = initConfig
			}
			d, _ := run{config: tt.config}.must(t, m)
			wantError(t, checkKubeletInUse(t.Context(), d), tt.wantErr, tt.wantCode)
		})
	}
}

// wantError compares an error's text and exit code; no text means none.
func wantError(t *testing.T, err error, text string, code finding.ExitCode) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("got %v, want none", err)
		}
		return
	}
	var known *finding.Error
	switch {
	case err == nil || !strings.Contains(err.Error(), text):
		t.Errorf("got %v, want %q", err, text)
	case !errors.As(err, &known) || known.Code != code:
		t.Errorf("%v: exit code is not %d", err, code)
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
			config:  joinConfig,
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
			config:  initConfig,
			wantErr: "no JoinConfiguration kind was found in it, only InitConfiguration",
		},
		{name: "our own document alone", config: "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"},
		{name: "a ClusterConfiguration alone", config: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			_, _, err := run{config: tt.config, options: Options{Role: tt.role}}.data(t, m)
			wantError(t, err, tt.wantErr, finding.ExitUsage)
		})
	}
}

func TestKubeadmConfig(t *testing.T) {
	m, _ := machinetest.New(t)
	out, err := run{config: "# mine\n" + initConfig}.do(t, m, kubeadmConfig())
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
	before := snapshot(t, m)
	again, err := run{config: "# mine\n" + initConfig}.do(t, m, kubeadmConfig())
	if err != nil || !strings.Contains(again, "kubeadm.yaml unchanged") {
		t.Errorf("the second run: %v\n%s", err, again)
	}
	if diff := cmp.Diff(before, snapshot(t, m)); diff != "" {
		t.Errorf("the second run changed files (-before +after):\n%s\n%s", diff, out)
	}
}

func TestKubeadmConfig_OfAFinishedMachineStays(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.StateFile, stateAt(v1alpha1.StageFinished))
	machinetest.Put(t, m, machine.KubeadmConfig, "what kubeadm was given\n")
	d, out := run{config: initConfig}.must(t, m)
	if err := kubeadmConfig().run(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := machinetest.Content(m, machine.KubeadmConfig); got != "what kubeadm was given\n" || !strings.Contains(out.String(), "unchanged") {
		t.Errorf("kubeadm.yaml is %q; said %q", got, out)
	}
}

func TestCheckTaints(t *testing.T) {
	const taint = v1alpha1.UninitializedTaint
	const kubelet = "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for _, tt := range []struct {
		name    string
		config  string
		flags   string
		wantErr string
	}{
		{name: "none", config: initConfig},
		{name: "another", config: initConfig + kubelet + "registerWithTaints: [{key: a, effect: NoSchedule}]\n"},
		{
			name:    "in the kubelet's configuration",
			config:  initConfig + kubelet + "registerWithTaints: [{key: " + taint + ", effect: NoSchedule}]\n",
			wantErr: "taints: the kubelet sets the taint",
		},
		{
			name:    "among kubeadm's",
			config:  strings.Replace(initConfig, "{name: cp1}", "{name: cp1, taints: [{key: "+taint+", effect: NoSchedule}]}", 1),
			wantErr: "taints: the kubelet sets the taint",
		},
		{
			name:    "among the administrator's flags",
			config:  initConfig,
			flags:   "KUBELET_EXTRA_ARGS=--register-with-taints=" + taint + "=true:NoSchedule\n",
			wantErr: "/etc/default/kubelet:1: --register-with-taints",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			if tt.flags != "" {
				machinetest.Put(t, m, "/etc/default/kubelet", tt.flags)
			}
			d, _ := run{config: tt.config}.must(t, m)
			wantError(t, checkTaints(t.Context(), d), tt.wantErr, finding.ExitUsage)
		})
	}
}

func TestCheckKubeadmConfig_AsksTheInstalledKubeadm(t *testing.T) {
	m, runner := machinetest.New(t)
	var validated string
	runner.During = func(line string) {
		if path, ok := strings.CutPrefix(line, "kubeadm config validate --config "); ok {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			validated = string(data)
		}
	}
	foreign := initConfig + "---\napiVersion: example.com/v1\nkind: Thing\n"
	d, _ := run{config: foreign + "---\napiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"}.must(t, m)
	if err := checkKubeadmConfig(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(validated, "InitConfiguration") || strings.Contains(validated, "Thing") || strings.Contains(validated, "CloudConf") {
		t.Errorf("kubeadm was given\n%s", validated)
	}
	runner.Fails["kubeadm config validate"] = errors.New("exit status 1")
	runner.Answers["kubeadm config validate"] = "error: strict decoding error: unknown field \"nodeRegistraton\"\nTo see the stack trace of this error execute with --v=5 or higher\n"
	wantError(t, checkKubeadmConfig(t.Context(), d), `kubeadm config validate: strict decoding error: unknown field "nodeRegistraton"`, finding.ExitPreflight)
}
