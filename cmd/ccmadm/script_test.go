package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// cluster is the control plane of TestClusterScripts.
var cluster *manifeststest.ControlPlane

// suite starts it before the tests, unless it is left out; see manifeststest.LeaveOut.
type suite struct{ m *testing.M }

func (s suite) Run() int { return manifeststest.Main(s.m, &cluster) }

func TestMain(m *testing.M) {
	discardLogs()
	testscript.Main(suite{m}, map[string]func(){"ccmadm": func() {
		streams := workflow.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
		os.Exit(run(context.Background(), streams, append([]string{"ccmadm"}, os.Args[1:]...)))
	}})
}

// TestScripts runs the command line as a user would, one script per behaviour: testdata/*.txtar. Beside the commands of
// testscript there is `exits STATUS COMMAND...`, which runs a command and wants exactly that exit status.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: setUp, Condition: condition, Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// TestClusterScripts runs those of testdata/cluster against a real API server, whose administrator is in KUBECONFIG.
// `node NAME [tainted] [provider-id=ID] [address=IP] [ready]` creates a Node as a kubelet would; `apply FILE...`
// creates what is in files, status included.
func TestClusterScripts(t *testing.T) {
	admin, err := cluster.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cluster", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			path := filepath.Join(e.WorkDir, "admin.conf")
			e.Setenv("KUBECONFIG", path)
			return errors.Join(ownHome(e), os.WriteFile(path, admin, 0o600))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"apply": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, file := range args {
					ts.Check(applyFile(t.Context(), cluster.Config, ts.MkAbs(file)))
				}
			},
			"node": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(createNode(t.Context(), client, args))
			},
		},
	})
}

// condition knows [root], for what only root may try.
func condition(name string) (bool, error) {
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// setUp says in CCMADM where nothing but ccmadm is, and in KUBEADM where the lab's kubeadm is, if the lab has built one:
// a script puts one or the other into its PATH.
func setUp(e *testscript.Env) error {
	if err := ownHome(e); err != nil {
		return err
	}
	e.Setenv("WINDOW", minors.Window())
	e.Setenv("CCMADM", filepath.SplitList(e.Getenv("PATH"))[0]) // testscript.Main puts its programs in front
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil //nolint:nilerr // then there is no lab
	}
	found, err := filepath.Glob(filepath.Join(cache, "ccmadm-lab", "kubernetes-"+minors.Newest()+"*", "kubeadm"))
	if err == nil && len(found) == 0 && os.Getenv("CCMADM_TEST") == "cluster" {
		return errors.New("the lab has built no kubeadm: bin/lab build --programs") // then nothing is left out
	}
	if err != nil || len(found) == 0 {
		return err
	}
	e.Setenv("KUBEADM", filepath.Dir(slices.Max(found)))
	return nil
}

// ownHome gives a script a home directory. The one of testscript, /no-home, is left behind on the machine when root
// runs the tests, and an ordinary user cannot read it afterwards.
func ownHome(e *testscript.Env) error {
	home := filepath.Join(e.WorkDir, "home")
	e.Setenv("HOME", home)
	return os.Mkdir(home, 0o700)
}

// exits runs a command whose exit status is part of what it says.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}

func createNode(ctx context.Context, client kubernetes.Interface, args []string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: args[0]}}
	for _, arg := range args[1:] {
		switch arg {
		case "tainted":
			node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		case "ready":
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		default:
			name, value, _ := strings.Cut(arg, "=")
			if name == "provider-id" {
				node.Spec.ProviderID = value
			} else {
				node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: value}}
			}
		}
	}
	created, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status = node.Status
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}
