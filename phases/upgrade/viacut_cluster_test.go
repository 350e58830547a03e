package upgrade

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A driver that stops in the middle of a worker loses the Lease: the same command goes on with that worker, and where
// the former driver comes back to life it touches nothing any more.
func TestCluster_UpgradeVia_CutShortAtAWorker(t *testing.T) {
	v := newDriven(t)
	stopped, lives := make(chan struct{}), make(chan struct{})
	former := v.runner.During
	var stops atomic.Bool
	stops.Store(true)
	v.runner.During = func(line string) {
		if v.isUpgrade(line, "w1") && stops.CompareAndSwap(true, false) {
			close(stopped)
			<-lives
			return
		}
		former(line)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := v.do(t, Upgrade{Version: "v1.36.3", Remote: fleet.Remote{Via: fleet.ViaSSH, Parallel: 1}})
		ended <- err
	}()
	<-stopped
	v.upgraded()
	v.told("w1", "v1.36.3", `"upgrading":"upgrade node v1.36.3"`)
	phasestest.Abandon(t, v.client)
	out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	if got := v.upgraded(); err != nil || !slices.Equal(got, []string{"cp2", "w1", "w2"}) {
		t.Errorf("upgraded were %v: %v\n%s", got, err, out)
	}
	runs, text := phasestest.JournalOf(t) // the third one brings the manager along, on behalf of cp2, where nobody runs
	if last := phasestest.Newest(runs); len(runs) != 4 || runs[1].State != journal.CutShort || last.State != journal.Done ||
		last.Steps[0].Node != "w1" {
		t.Errorf("the journal says\n%s", text)
	}
	close(lives)
	err = <-ended
	if got := v.upgraded(); err == nil || len(got) > 0 {
		t.Errorf("the former driver has upgraded %v: %v", got, err)
	}
	if _, now := phasestest.JournalOf(t); now != text {
		t.Errorf("the former driver has written\n%s\nwhere there was\n%s", now, text)
	}
}

// A control plane that is lost while it is upgraded ends the run: no worker is touched. As long as it is away nothing
// begins; once it is back, the same command goes on.
func TestCluster_UpgradeVia_AControlPlaneIsLost(t *testing.T) {
	v := newDriven(t)
	v.runner.Fails[v.ssh("cp2")+"upgrade node"] = errors.New("exit status 255")
	out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	phasestest.WantError(t, err, "node cp2: run ssh ", finding.ExitError)
	if got := v.upgraded(); !slices.Equal(got, []string{"cp2"}) {
		t.Errorf("upgraded were %v\n%s", got, out)
	}
	if runs, text := phasestest.JournalOf(t); len(runs) != 1 || runs[0].State != journal.Done {
		t.Errorf("the journal says\n%s", text)
	}
	delete(v.runner.Fails, v.ssh("cp2")+"upgrade node")
	v.ready(t, "cp2", corev1.ConditionUnknown)
	out, err = v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	phasestest.WantError(t, err, "U13 Node/cp2: it is not Ready", finding.ExitPreflight)
	if !strings.Contains(out, "next: on cp2: ccmadm upgrade node") {
		t.Errorf("what leads on is not named:\n%s", out)
	}
	if got := v.upgraded(); len(got) > 0 {
		t.Errorf("upgraded were %v", got)
	}
	v.ready(t, "cp2", corev1.ConditionTrue)
	out, err = v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	if got := v.upgraded(); err != nil || !slices.Equal(got, []string{"cp2", "w1", "w2"}) {
		t.Errorf("upgraded were %v: %v\n%s", got, err, out)
	}
}

func (v *driven) ready(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	node, err := v.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	if _, err := v.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// An API server that restarts behind a control plane's upgrade is waited for. One that does not say whether a pod is at
// work somewhere is not taken to say that there is none.
func TestCluster_UpgradeVia_TheAPIServerIsUnavailable(t *testing.T) {
	v := newDriven(t)
	var until atomic.Pointer[time.Time] // until when it answers nothing
	var hidesPods atomic.Bool
	proxy := phasestest.Proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		end := until.Load()
		silent := end != nil && time.Now().Before(*end)
		pods := hidesPods.Load() && strings.Contains(r.URL.RawQuery, "managed-by") && strings.HasSuffix(r.URL.Path, "/pods")
		if silent || pods {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
		return silent || pods
	})
	v.behind(t, proxy)
	during, outages := v.runner.During, 0
	v.runner.During = func(line string) {
		during(line)
		if v.isUpgrade(line, "cp2") || v.isUpgrade(line, "w1") {
			end := time.Now().Add(3 * time.Second)
			until.Store(&end)
			outages++
		}
	}
	hidesPods.Store(true)
	before := v.configuration(t)
	_, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	phasestest.WantError(t, err, "U13 Node/w1: look for pods of a run that was cut short", finding.ExitPreflight)
	if got := v.upgraded(); len(got) > 0 || v.ran() > 0 || v.configuration(t) != before {
		t.Errorf("something was changed, %v were upgraded", got)
	}
	hidesPods.Store(false)
	out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	if got := v.upgraded(); err != nil || outages != 2 || !slices.Equal(got, []string{"cp2", "w1", "w2"}) {
		t.Errorf("upgraded were %v: %v\n%s", got, err, out)
	}
	if runs, text := phasestest.JournalOf(t); len(runs) != 2 || phasestest.Newest(runs).State != journal.Done {
		t.Errorf("the journal says\n%s", text)
	}
}

// Somebody else's run between the control planes and the workers leaves workers behind, and is no end before anything
// was changed.
func TestCluster_UpgradeVia_AnotherRunBeforeTheWorkers(t *testing.T) {
	v := newDriven(t)
	during := v.runner.During
	var others *journal.Journal
	v.runner.During = func(line string) {
		during(line)
		if v.isUpgrade(line, "cp2") {
			var err error
			if others, err = journal.Open(t.Context(), v.client, journal.Run{Command: "apply", Machine: "cp2"}); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	phasestest.WantError(t, err, "another run is under way: ccmadm apply on cp2", finding.ExitError)
	if known := new(finding.Error); !errors.As(err, &known) || strings.Contains(known.Hint, "Nothing was changed") ||
		!strings.Contains(known.Hint, "run the same command again: it resumes here") {
		t.Errorf("it says %v, hint %s", err, known.Hint)
	}
	if got := v.upgraded(); !slices.Equal(got, []string{"cp2"}) {
		t.Errorf("upgraded were %v", got)
	}
	if err := others.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A Service that does not answer on this machine is no end of all while other machines are left.
func TestCluster_UpgradeVia_NoServiceBeforeTheOthers(t *testing.T) {
	v := newDriven(t)
	v.behind(t, phasestest.Proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		// What is asked for in another's name is the plan's dry run.
		asked := strings.HasSuffix(r.URL.Path, "/services/kubernetes") && r.Header.Get("Impersonate-User") == ""
		if asked {
			http.Error(w, "no", http.StatusForbidden)
		}
		return asked
	}))
	all := []string{"cp2", "w1", "w2"}
	for _, tt := range []struct {
		skip []string
		want finding.ExitCode
	}{{want: finding.ExitError}, {skip: all, want: finding.ExitNotInTime}} {
		run, out, _ := v.begun(t, Upgrade{Version: "v1.36.3", Remote: fleet.Remote{Via: fleet.ViaSSH, Parallel: 1, Skip: tt.skip}})
		list := slices.DeleteFunc(ControlPlane(), func(p workflow.Phase) bool { return p.Name == manager.Rollout().Name })
		err := run.Do(t.Context(), list)
		phasestest.WantError(t, err, "look for Service/default/kubernetes: ", tt.want)
		known := new(finding.Error)
		if left := tt.skip == nil; !errors.As(err, &known) || strings.Contains(known.Hint, goesOn) != left {
			t.Errorf("it says %v, hint %s\n%s", err, known.Hint, out)
		}
		if got := v.upgraded(); len(got) > 0 {
			t.Errorf("upgraded were %v", got)
		}
	}
}

// behind has the driver ask a proxy, which has a CA as an API server has.
func (v *driven) behind(t *testing.T, proxy *rest.Config) {
	t.Helper()
	target, err := url.Parse(proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(server.Close)
	v.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	admin := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: v.ca}}
	machinetest.Put(t, v.m, machine.AdminConf, phasestest.KubeconfigText(t, admin))
	for name := range v.address {
		v.told(name, "v1.36.3", `"upgraded":""`)
	}
}

// A pod that its kubelet does not begin is given up, and deleted. One that runs is left: kubeadm is not cut short, not
// where it takes long, and not where its driver is told to stop.
func TestCluster_UpgradeVia_PodThatHangs(t *testing.T) {
	v := newDriven(t)
	pods := v.client.CoreV1().Pods("kube-system")
	go func() { // what a kubelet does with a pod that is deleted
		for ; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			list, _ := fleet.PodsOfSteps(t.Context(), v.client, fleet.UpgradePrefix)
			for _, pod := range list {
				if pod.DeletionTimestamp != nil {
					_ = pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
				}
			}
		}
	}()
	r, _, _ := v.begun(t, Upgrade{Version: "v1.36.3"})
	n := &fleet.Node{Name: "w1"}
	for _, tt := range []struct {
		name, want           string
		runs                 bool
		begins, takes, after time.Duration
	}{
		{name: "is not begun", want: "its kubelet has not begun it within 1s", begins: time.Second, after: time.Hour},
		{name: "has no end", want: "context deadline exceeded", runs: true, takes: 3 * time.Second, after: time.Hour},
		{name: "its driver is told to stop", want: "context deadline exceeded", runs: true, after: 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.runs {
				existingtest.PlayPodOf(t, v.client, fleet.UpgradePrefix, n, corev1.PodStatus{Phase: corev1.PodRunning})
			}
			b := &fleet.Pods{
				Env: r.Env, Client: v.client, Image: "x", Prefix: fleet.UpgradePrefix, Begins: cmp.Or(tt.begins, time.Hour),
				Takes: cmp.Or(tt.takes, time.Hour), Grace: time.Minute,
			}
			ctx, stop := context.WithTimeout(t.Context(), tt.after)
			defer stop()
			err := workflow.AsError(fleet.OneAtATime{Inspector: b, Client: v.client, Answer: time.Hour}.Run(ctx, n, fleet.Command{"upgrade", "node"}))
			phasestest.WantError(t, err, tt.want, finding.ExitError)
			left, failed := fleet.PodsOfSteps(t.Context(), v.client, fleet.UpgradePrefix)
			if failed != nil || (len(left) > 0) != tt.runs {
				t.Fatalf("%d pods are left: %v", len(left), failed)
			}
			if tt.runs {
				v.expectKeptOff(t, n, err, &left[0])
			}
		})
	}
}

// expectKeptOff: who looks after a pod that is at work is told so, and nobody else changes that machine meanwhile.
func (v *driven) expectKeptOff(t *testing.T, n *fleet.Node, err error, pod *corev1.Pod) {
	t.Helper()
	const goesOn = "it finishes by itself (kubectl -n kube-system logs -f "
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(known.Hint, goesOn+pod.Name) ||
		!strings.Contains(err.Error(), pod.Name+" is still running on Node/w1") {
		t.Errorf("it says no more than %v", err)
	}
	if pod.DeletionTimestamp != nil {
		t.Error("it is deleted")
	}
	phasestest.WantError(t, fleet.RefuseAtWork(t.Context(), v.client, n), pod.Name+" is still running on Node/w1", finding.ExitRefused)
	_, err = adoption.NoteCutShort(t.Context(), v.client, []*fleet.Node{n})
	phasestest.WantError(t, err, pod.Name+" is still running on Node/w1", finding.ExitRefused)
	others := []*fleet.Node{{Name: "w2"}, {Name: "w1", Skipped: true}}
	if _, err := adoption.NoteCutShort(t.Context(), v.client, others); err != nil {
		t.Errorf("of other machines: %v", err)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if err := v.client.CoreV1().Pods("kube-system").Delete(t.Context(), pod.Name, now); err != nil {
		t.Error(err)
	}
}

// A worker whose upgrade has failed may be deleted since, and the others upgraded by hand: the same command ends the run in the journal.
func TestCluster_UpgradeVia_NoWorkerIsLeft(t *testing.T) {
	v := newDriven(t)
	v.fails = "w1"
	v.runner.Fails[v.ssh("w1")+"upgrade node"] = errors.New("exit status 1")
	for range 2 { // the manager's turn comes with the second: cp2 is upgraded by then
		_, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
		phasestest.WantError(t, err, "node w1: run ssh ", finding.ExitError)
	}
	v.told("w2", "v1.36.3", `"upgraded":"v1.36.3"`)
	if out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH, Skip: []string{"w1"}}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if runs, text := phasestest.JournalOf(t); journal.Unfinished(runs) == nil {
		t.Errorf("a worker that is skipped is left\n%s", text)
	}
	if err := v.client.CoreV1().Nodes().Delete(t.Context(), "w1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH, Skip: []string{"w2"}}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if runs, text := phasestest.JournalOf(t); journal.Unfinished(runs) == nil {
		t.Errorf("a worker that is skipped, and that no run has begun, is left\n%s", text)
	}
	if out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH}); err != nil || !strings.Contains(out, "and no worker is left: closed") {
		t.Fatalf("%v\n%s", err, out)
	}
	runs, text := phasestest.JournalOf(t)
	last := phasestest.Newest(runs)
	if last.Command != "upgrade workers v1.36.3" || last.State != journal.Done || journal.Unfinished(runs) != nil {
		t.Errorf("the journal says\n%s", text)
	}
	count := len(runs)
	if out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if runs, text := phasestest.JournalOf(t); len(runs) != count {
		t.Errorf("once more: the journal says\n%s", text)
	}
}

// A run for workers that comes to its end while the next one waits for it was not cut short.
func TestCluster_UpgradeVia_EndsWhileTheNextWaits(t *testing.T) {
	v := newDriven(t)
	r, out, _ := v.begun(t, Upgrade{Version: "v1.36.3"})
	here, err := workflow.NodeName(r.Host)
	if err != nil {
		t.Fatal(err)
	}
	alive, err := journal.Open(t.Context(), v.client, journal.Run{Command: "upgrade workers v1.36.3", Machine: here})
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		if err := alive.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	config := phasestest.Proxied(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/kube-system/leases") {
			end()
		}
		return false
	})
	u := &upgrader{r: r, op: &Upgrade{target: version.MustParseGeneric("1.36.3")}, client: kubernetes.NewForConfigOrDie(config)}
	if err := u.closeWorkers(t.Context()); err != nil || strings.Contains(out.String(), "closed") {
		t.Errorf("%v\n%s", err, out)
	}
	if runs, text := phasestest.JournalOf(t); len(runs) != 2 || runs[0].State != journal.Done || runs[1].State != journal.Done {
		t.Errorf("the journal says\n%s", text)
	}
}
