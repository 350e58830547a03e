package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// decommissioned is an inventory that says that m0 is gone.
const decommissioned = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1}
machines: [{id: m0, state: decommissioned}, {id: m1}, {id: m2}, {id: m3}]
`

// history is what happens to a cluster of a few silent Nodes while upstream's
// lifecycle controller looks at them. Every question takes ten seconds of its time.
type history struct {
	settings Settings
	client   *kubernetes.Clientset // of an administrator
	silent   []*corev1.Node
	events   *record.FakeRecorder

	document  func(question int) []byte // nil: the source says nothing
	during    func(t *testing.T, question int)
	newLeader func(question int) bool

	mu        sync.Mutex
	at        time.Time
	questions map[string]int
	leader    *Nodes
}

func (h *history) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// asked moves the clock, and returns how often that Node was asked about.
func (h *history) asked(node string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.questions[node]++
	if node == h.silent[0].Name {
		h.at = h.at.Add(10 * time.Second)
	}
	return h.questions[node]
}

func (h *history) count(node string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.questions[node]
}

// watched is the provider, and lets the history go on with every question.
type watched struct {
	cloudprovider.Interface // the controller asks for nothing else
	*history

	t *testing.T
}

func (w watched) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (w watched) InstancesV2() (cloudprovider.InstancesV2, bool) { return watchedInstances{w}, true }

type watchedInstances struct{ watched }

func (w watchedInstances) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return nil, errors.New("nobody asks")
}

func (w watchedInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return w.leader.InstanceShutdown(ctx, node)
}

func (w watchedInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	n := w.asked(node.Name)
	if document := w.document(n); document != nil && node.Name == w.silent[0].Name {
		_, _ = w.settings.Store.Offer(document, nil)
	}
	w.during(w.t, n)
	if w.newLeader(n) {
		w.lead(w.t)
	}
	exists, err := w.leader.InstanceExists(ctx, node)
	if err != nil {
		exists = true // upstream leaves the Node alone
	}
	return exists, err
}

// newHistory has a Node for each provider ID, silent for long.
func newHistory(t *testing.T, providerIDs ...string) *history {
	t.Helper()
	h := &history{
		at: time.Now(), questions: map[string]int{}, events: record.NewFakeRecorder(1000),
		document:  func(int) []byte { return []byte(decommissioned) },
		during:    func(*testing.T, int) {},
		newLeader: func(int) bool { return false },
	}
	h.client = kubernetes.NewForConfigOrDie(unlimited(plane.Config))
	// Nothing was deleted by an earlier process.
	err := h.client.CoreV1().ConfigMaps(v1alpha1.Namespace).Delete(t.Context(), v1alpha1.LastGoodMachinesName,
		metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	source := config.InventorySource{File: "unused"}
	source.Default()
	h.settings = Settings{
		Configuration: config.OnPremConfiguration{Inventory: &source},
		Store:         inventory.NewStore(inventory.Limits{}, h.now),
		Client:        h.client, Recorder: h.events, Now: h.now,
	}
	for n, id := range providerIDs {
		h.silent = append(h.silent, silentNode(t, h.client, fmt.Sprintf("silent-%d", n), id))
	}
	return h
}

// lead is a process that begins to lead: it remembers nothing.
func (h *history) lead(t *testing.T) {
	leader, err := New(h.settings)
	if err != nil && h.settings.Informer.IsStopped() { // the history is over, and the controller asks a last question
		return
	}
	if err != nil {
		t.Errorf("no new leader, the one before goes on: %v", err)
		return
	}
	h.leader = leader
}

func unlimited(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS = -1
	return c
}

// silentNode registers a Node as an initialized one that went away.
func silentNode(t *testing.T, client kubernetes.Interface, name, providerID string) *corev1.Node {
	t.Helper()
	_, id, _ := inventory.Split(providerID)
	node := ready(withProviderID(machine(name, "", ""), providerID), corev1.ConditionUnknown)
	node.Labels = map[string]string{v1alpha1.MachineLabel: id}
	node, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		_ = leases.Delete(ctx, name, metav1.DeleteOptions{})
	})
	return node
}

// update changes the first Node before the history starts.
func (h *history) update(t *testing.T, change func(*corev1.Node)) {
	t.Helper()
	change(h.silent[0])
	var err error
	if h.silent[0], err = h.client.CoreV1().Nodes().Update(t.Context(), h.silent[0], metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// run runs upstream's controller until half an hour has passed for each Node that
// is still there, and returns how many are not.
func (h *history) run(t *testing.T) (gone int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	factory := informers.NewSharedInformerFactory(h.client, 0)
	h.settings.Informer = factory.Core().V1().Nodes().Informer()
	h.lead(t)
	controller, err := nodelifecycle.NewCloudNodeLifecycleController(factory.Core().V1().Nodes(), h.client,
		watched{history: h, t: t}, time.Millisecond, 1)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.Run(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
	}()
	defer func() { cancel(); <-ended; factory.Shutdown() }()
	timeout := time.After(5 * time.Minute)
	for {
		gone = 0
		done := true
		for _, node := range h.silent {
			_, err := h.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				gone++
			case err != nil:
				t.Fatal(err)
			case h.count(node.Name) < 180:
				done = false
			}
		}
		if done || gone > 0 && gone == len(h.silent) {
			return gone
		}
		select {
		case <-timeout:
			t.Fatalf("five minutes have passed: %v questions", h.questions)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// With upstream's lifecycle controller and a real API server: the Node of a machine
// that is gone by all rules goes, and each rule alone keeps it.
func TestCluster_EachRuleKeepsTheNode(t *testing.T) {
	const m0 = "onprem://ber1/m0"
	say := func(document string) func(*testing.T, *history) {
		return func(_ *testing.T, h *history) { h.document = func(int) []byte { return []byte(document) } }
	}
	replace := func(from, to string) func(*testing.T, *history) {
		return say(strings.Replace(decommissioned, from, to, 1))
	}
	nobody, err := plane.User("may-read-nothing")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-55s %s\n", "all rules say that it is gone, but for", "the Node")
	defer func() { t.Log(table.String()) }()
	for _, tt := range []struct {
		name   string
		nodes  []string
		change func(*testing.T, *history)
		want   int
	}{
		{"no rule", []string{m0}, func(*testing.T, *history) {}, 1},
		{"a forced control plane", []string{m0}, func(t *testing.T, h *history) {
			replace("state: decommissioned", "state: decommissioned, force: true")(t, h)
			h.update(t, func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} })
		}, 1},
		{"1: a foreign Node", []string{"kwok://m0"}, replace("state: dec",
			"match: {providerIDs: ['kwok://m0']}, state: dec"), 0},
		{"1: another site", []string{"onprem://ham1/node-m0"}, replace("state: dec", "hostname: silent-0, state: dec"), 0},
		{"2: too few readings", []string{m0}, replace("machines:", "policy: {absence: {minSnapshots: 1000}}\nmachines:"), 0},
		{"2: an old inventory", []string{m0}, func(_ *testing.T, h *history) {
			h.document = func(n int) []byte { return map[bool][]byte{true: []byte(decommissioned)}[n <= 5] }
		}, 0},
		{"2: the source is broken by now", []string{m0}, func(_ *testing.T, h *history) {
			h.document = func(n int) []byte {
				return map[bool][]byte{true: []byte(decommissioned), false: []byte("<html>")}[n <= 30]
			}
		}, 0},
		{"3: an active machine", []string{m0}, replace("decommissioned", "active"), 0},
		{"3: in maintenance", []string{m0}, replace("decommissioned", "maintenance"), 0},
		{"3: deletion: never", []string{m0}, replace("machines:", "policy: {deletion: never}\nmachines:"), 0},
		{"3: absent, and tombstones are wanted", []string{m0}, replace("{id: m0, state: decommissioned}, ", ""), 0},
		{"4: a kubelet that talks", []string{m0}, func(_ *testing.T, h *history) { h.during = h.renew }, 0},
		{"4: nobody can tell whether it talks", []string{m0}, func(_ *testing.T, h *history) {
			h.settings.Client = kubernetes.NewForConfigOrDie(unlimited(nobody))
		}, 0},
		{"5: protected", []string{m0}, replace("state: decommissioned", "state: decommissioned, protected: true"), 0},
		{"5: a control plane", []string{m0}, func(t *testing.T, h *history) {
			h.update(t, func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} })
		}, 0},
		{"6: too many at once", []string{m0, "onprem://ber1/m1"}, replace("{id: m1}", "{id: m1, state: decommissioned}"), 0},
		{"6: the budget", []string{m0, "onprem://ber1/m1"}, say(strings.NewReplacer("{id: m1}",
			"{id: m1, state: decommissioned}",
			"machines:", "policy: {deletionBudget: {max: 1, per: 100h, maxPercent: "+
				"100}}\nmachines:").Replace(decommissioned)), 1},
		{"7: a leader that changes all the time", []string{m0}, func(_ *testing.T, h *history) {
			h.newLeader = func(int) bool { return true }
		}, 0},
		{"a dry run", []string{m0}, func(_ *testing.T, h *history) { h.settings.Configuration.Inventory.DryRun = true }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t, tt.nodes...)
			tt.change(t, h)
			got := h.run(t)
			fmt.Fprintf(&table, "%-55s %s\n", tt.name, map[bool]string{true: "stays", false: "goes"}[got < len(tt.nodes)])
			if got != tt.want {
				t.Errorf("%d Nodes are gone, want %d; events: %s", got, tt.want, h.told())
			}
		})
	}
}

// renew writes the Lease of the first Node, as its kubelet would.
func (h *history) renew(t *testing.T, _ int) {
	leases := h.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	_, err := leases.Patch(t.Context(), h.silent[0].Name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil && t.Context().Err() == nil {
		t.Error(err)
	}
}

// told returns the Events so far.
func (h *history) told() string {
	var b strings.Builder
	for {
		select {
		case e := <-h.events.Events:
			fmt.Fprintln(&b, e)
		default:
			return b.String()
		}
	}
}
