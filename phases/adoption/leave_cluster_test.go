package adoption

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// The way back is open from anywhere on the way there, and goes on where it was cut short itself.
func TestCluster_Leave_FromHalfWay(t *testing.T) {
	m, client := plain(t)
	managerRuns := func() bool {
		_, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "onprem-cloud-controller-manager",
			metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	pass := func(r *workflow.Run, out *bytes.Buffer, list ...workflow.Phase) {
		t.Helper()
		for _, p := range list {
			if err := p.Do(t.Context(), r); err != nil {
				t.Fatalf("%s: %v\n%s", p.Name, err, out)
			}
		}
	}
	for done := 3; done <= 6; done++ { // former-provider, begin, cloud-config, rbac, addon
		r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
		pass(r, out, Adopt()[1:done]...)
		wait := workflow.Inputs{
			Request: workflow.Request{Flags: config.CloudConfiguration{Wait: config.WaitPolicy{
				Timeout: metav1.Duration{Duration: time.Second},
			}}},
		}
		r, out = adoption(t, m, wait, Adoption{Leave: true, Yes: true})
		pass(r, out, leavePreflight(), off(manager.RBAC()), off(manager.Addon()), triedRollout())
		if got := managerRuns(); got != (done == 6) {
			t.Errorf("behind %d phases: there is a manager: %v\n%s", done, got, out)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		applier, err := apply.NewCluster(phasestest.Cluster.Config, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range []apply.Set{apply.Addon, apply.NodeAgent, apply.RBAC} { // killed in the middle of the last phase
			if _, err := applier.Apply(t.Context(), set, nil); err != nil {
				t.Fatal(err)
			}
		}
		r, out = adoption(t, m, wait, Adoption{Leave: true, Yes: true})
		pass(r, out, leavePreflight(), off(manager.RBAC()), off(manager.Addon()), triedRollout())
		if managerRuns() {
			t.Errorf("behind %d phases: the manager is back\n%s", done, out)
		}
		pass(r, out, forgetMachine(), removeObjects())
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What runs keeps its permissions until it has ended, and leave does not return before.
func TestCluster_Leave_WaitsForPods(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	for _, p := range Adopt()[1:6] {
		if err := p.Do(t.Context(), r); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	if err := resolved(manager.Record()).Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	pods, accounts := client.CoreV1().Pods("kube-system"), client.CoreV1().ServiceAccounts("kube-system")
	phasestest.Made(t, pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "manager", Labels: map[string]string{v1alpha1.NameLabel: "onprem-cloud-controller-manager"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: "w1"},
	})
	left := make(chan error, 1)
	r, _ = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true})
	go func() { left <- removeObjects().Do(t.Context(), r) }()
	account := func() bool {
		_, err := accounts.Get(t.Context(), "onprem-cloud-controller-manager", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	select {
	case err := <-left:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(2 * time.Second):
	}
	if !account() {
		t.Error("a manager that runs has lost its identity")
	}
	if err := pods.Delete(t.Context(), "manager", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil || account() {
		t.Errorf("%v; the identity is left: %v", err, account())
	}
}

// A kubelet in external mode without --node-ip repeats no address. It is taken out all the same.
func TestCluster_Leave_KubeletWithoutNodeIP(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := held(begin()).Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pods := fleet.Remote{Via: fleet.ViaPods, Image: "x", LogTimeout: time.Second}
	r, out = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Remote: pods, NodeTimeout: fleet.NodeTimeout})
	a, err := adoptionOf(r).newAdopter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	n := &fleet.Node{Name: "w1", IP: "198.18.0.101"}
	ran := playPod(t, client, n, corev1.PodStatus{Phase: corev1.PodSucceeded})
	if err := a.leave(t.Context(), n); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	select {
	case args := <-ran:
		if args != "node plain --forget --root=/host" {
			t.Errorf("it ran %q", args)
		}
	case <-time.After(time.Minute):
		t.Errorf("nothing was done there\n%s", out)
	}
	n.IP = "198.18.0.102" // what ccmadm gave the kubelet
	playPod(t, client, n, corev1.PodStatus{Phase: corev1.PodSucceeded})
	phasestest.WantError(t, workflow.AsError(a.leave(t.Context(), n)), `now reports the addresses "198.18.0.101"`, finding.ExitError)
	adoptionOf(r).Via = fleet.ViaHand
	t.Run("by hand", func(t *testing.T) { leaveByHandUntold(t, m, client) })
}

// workerOf is a machine whose kubelet is that of a Node.
func workerOf(t *testing.T, node string) *machine.Machine {
	t.Helper()
	worker, _ := phasestest.KubeletOf(t)
	identity, err := phasestest.Cluster.Kubeconfig("system:node:"+node, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, worker, machine.KubeletConf, string(identity))
	return worker
}

// leaveByHandUntold takes w1 out, whose kubelet tells nothing: only its machine says that it has left.
func leaveByHandUntold(t *testing.T, m *machine.Machine, client kubernetes.Interface) {
	t.Helper()
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, NodeTimeout: fleet.NodeTimeout})
	a, err := adoptionOf(r).newAdopter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	byHand := a.step
	a.step = reported{byHand, asked, time.Second}
	n := &fleet.Node{Name: "w1", IP: "198.18.0.101"}
	err = workflow.AsError(a.leave(t.Context(), n))
	<-asked
	phasestest.WantError(t, err, "for `ccmadm node plain --forget` there", finding.ExitNotInTime)
	const older = "kubectl annotate node w1 ccmadm.dev/purge-"
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(known.Hint, older) {
		t.Errorf("it does not say %q: %v", older, err)
	}
	if want := "on w1, as root, run: ccmadm node plain --forget\n"; !strings.Contains(out.String(), want) {
		t.Errorf("it does not say %q\n%s", want, out)
	}
	a.step = reported{byHand, asked, time.Minute}
	byOlder := make(chan error, 1)
	go func() { byOlder <- a.leave(t.Context(), n) }()
	<-asked
	if err := kubelet.Ask(t.Context(), client, "w1", kubelet.AskedNothing); err != nil {
		t.Fatal(err)
	}
	if err := <-byOlder; err != nil {
		t.Errorf("the note was removed by hand: %v\n%s", err, out)
	}
	worker := workerOf(t, "w1")
	done := make(chan error, 1)
	go func() { done <- a.leave(t.Context(), n) }()
	<-asked
	o := kubelet.NodeOptions{Forget: true, Timeout: time.Second}
	streams := workflow.Streams{Out: t.Output(), Err: t.Output()}
	if err := kubelet.Plain(t.Context(), kubelet.NewNode(worker, o, streams, "test"), o); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the machine has said that it is done: %v\n%s", err, out)
	}
}

// What no step takes back is known before anything is changed, on this machine and over SSH.
func TestCluster_Leave_AdministratorsFlags(t *testing.T) {
	m, client := plain(t)
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	here = strings.ToLower(here)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := held(begin()).Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	begun, err := journal.Read(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	const ours, kubeadms = `"/etc/ccmadm/kubelet.env"`, `"/var/lib/kubelet/kubeadm-flags.env:1"`
	for _, tt := range []struct {
		name string
		// file is /etc/default/kubelet of this machine, and mode and ip are the places of flags of w1.
		file, mode, ip string
		skip           []string
		want           string
	}{
		{name: "none", mode: ours, ip: ours},
		{name: "kubeadm's", mode: kubeadms, ip: ours},
		{
			name: "in a file of w1", mode: `"/etc/default/kubelet:3"`, ip: ours,
			want: "w1: take the kubelet out of external mode: /etc/default/kubelet:3: --cloud-provider=external was not set " +
				"by ccmadm: remove it there",
		},
		{
			name: "behind ours", mode: ours + `,"/etc/default/kubelet:3"`, ip: ours,
			want: "/etc/default/kubelet:3: --cloud-provider=external was not set by ccmadm",
		},
		{name: "an address behind ours", mode: ours, ip: ours + `,"/etc/default/kubelet:3"`},
		{
			name: "in two places of w1", mode: ours, ip: `"/a:1","/b:2"`,
			want: "w1: --node-ip is set in two places: /a:1 and /b:2: remove one of the two",
		},
		{name: "of a node that is skipped", mode: `"/etc/default/kubelet:3"`, ip: ours, skip: []string{"w1"}},
		{
			name: "in a file of this machine", file: "A=\nB=--cloud-provider=external\n", mode: ours, ip: ours,
			want: here + ": take the kubelet out of external mode: ROOT/etc/default/kubelet:2: --cloud-provider=external was not " +
				"set by ccmadm: remove it there",
		},
		{
			name: "in two places of this machine", file: "A=--node-ip=::1\nB=--node-ip=::1\n", mode: ours, ip: ours,
			want: here + ": change the kubelet's flags: --node-ip is set in two places: ROOT/etc/default/kubelet:1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machinetest.Put(t, m, "/etc/default/kubelet", tt.file)
			m.Runner.(*machinetest.Commands).Answers["ssh"] = `{"node":"w1","caCertHashes":["` +
				identity.Pins(phasestest.Cluster.Config.CAData)[0] + `"],"version":"v1.36.3","flags":[` +
				`{"name":"cloud-provider","value":"external","from":[` + tt.mode + `],"runs":true},` +
				`{"name":"node-ip","value":"198.18.0.101","from":[` + tt.ip + `],"runs":true}]}`
			r, out := adoption(t, m, workflow.Inputs{DryRun: tt.want == ""},
				Adoption{Leave: true, Yes: true, Remote: fleet.Remote{Via: fleet.ViaSSH, Skip: tt.skip}})
			phasestest.WantError(t, leavePreflight().Do(t.Context(), r), strings.ReplaceAll(tt.want, "ROOT", m.Root), finding.ExitRefused)
			if runs, err := journal.Read(t.Context(), client); err != nil || len(runs) != len(begun) {
				t.Errorf("a run has begun: %v, %v\n%s", runs, err, out)
			}
		})
	}
}
