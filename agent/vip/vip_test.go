package vip

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/provider/announce"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// holderOf is the one of machine a, which knows these control planes, and what it tells the announcer.
func holderOf(t *testing.T, members ...string) (*holder, *announce.View) {
	t.Helper()
	told := &announce.View{}
	h := &holder{
		self: "a", address: addr("192.0.2.10"), ifi: "eth0", file: filepath.Join(t.TempDir(), "members.json"),
		now: time.Now, seen: announce.Sightings{}, set: func(v *announce.View) { *told = *v }, owns: func(netip.Addr) bool { return false },
	}
	for i, name := range members {
		h.members = append(h.members, member{Name: name, Address: addr("192.0.2." + strconv.Itoa(11+i))})
	}
	return h, told
}

// controlPlane is as old as its name comes early, and "old" is the oldest.
func controlPlane(name string, ready corev1.ConditionStatus, since time.Duration) corev1.Node {
	created, host := time.Date(2026, 11, 22, 0, 0, int(name[0]), 0, time.UTC), int(name[0]-'a')
	if name == "old" {
		created = created.Add(-time.Hour)
	}
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2." + strconv.Itoa(11+host)}}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(time.Now().Add(-since))},
	}
	return n
}

// Who has a vote follows the cluster's Nodes, and is kept for a start without an API server.
func TestHolder_Learn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		nodes   []corev1.Node
		pods    []corev1.Pod
		want    []string
		without []string // a vote
	}{
		{
			name:  "one more",
			nodes: []corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "True", 0), controlPlane("c", "True", 0)},
			want:  []string{"a", "b", "c"},
		},
		{
			name:  "the oldest is the first",
			nodes: []corev1.Node{controlPlane("a", "True", 0), controlPlane("old", "True", 0)},
			want:  []string{"old", "a"},
		},
		{
			name:  "before there is a CNI plugin nobody is ready, and all are alive",
			nodes: []corev1.Node{controlPlane("a", "False", time.Hour), controlPlane("b", "False", time.Hour)},
			want:  []string{"a", "b"},
		},
		{
			name:  "one that has just fallen silent may come back",
			nodes: []corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "Unknown", 10*time.Second)},
			want:  []string{"a", "b"},
		},
		{
			name:    "one that is silent for long has no vote, and is not forgotten",
			nodes:   []corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "Unknown", time.Minute)},
			want:    []string{"a"},
			without: []string{"b"},
		},
		{
			name:    "one whose pod is not ready for long, and whose kubelet is alive, has none either",
			nodes:   []corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "True", 0)},
			pods:    []corev1.Pod{vipPod("a", "True", time.Hour), vipPod("b", "False", 3*time.Minute)},
			want:    []string{"a"},
			without: []string{"b"},
		},
		{
			name:  "one whose pod is replaced has",
			nodes: []corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "True", 0)},
			pods:  []corev1.Pod{vipPod("a", "True", time.Hour), vipPod("b", "False", time.Minute)},
			want:  []string{"a", "b"},
		},
		{
			name:  "one that is deleted is",
			nodes: []corev1.Node{controlPlane("a", "True", 0)},
			want:  []string{"a"},
		},
		{
			name:  "a cluster that does not know this one yet",
			nodes: []corev1.Node{controlPlane("b", "True", 0)},
			want:  []string{"a", "b"},
		},
		{
			name:  "this one is a member whatever its kubelet does",
			nodes: []corev1.Node{controlPlane("a", "Unknown", time.Hour), controlPlane("b", "True", 0)},
			want:  []string{"a", "b"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) { learns(t, tt.nodes, tt.pods, tt.want, tt.without) })
	}
}

// learns expects the announcer to be told who has a vote and who has none, and the file to have both.
func learns(t *testing.T, nodes []corev1.Node, pods []corev1.Pod, want, without []string) {
	t.Helper()
	h, told := holderOf(t, "a", "b")
	if err := writeMembers(h.file, h.members); err != nil {
		t.Fatal(err)
	}
	h.set(h.view())
	if err := h.learn(nodes, pods); err != nil {
		t.Fatal(err)
	}
	kept, err := readMembers(h.file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range kept {
		names = append(names, m.Name)
	}
	for what, lists := range map[string][2][]string{
		"members": {want, told.Members}, "silent": {without, told.Silent}, "the file": {slices.Concat(want, without), names},
		"all": {names, told.All},
	} {
		if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// A pod that crashes is Ready for a moment each time: its Node has no vote until it is Ready for a minute. A pod that is not
// there, or may not be listed, tells nothing new; nor does the pod of a stranger that has its name.
func TestPodSilent(t *testing.T) {
	stranger := vipPod("b", "True", time.Hour)
	stranger.Spec.NodeName = "w1"
	for _, tt := range []struct {
		name      string
		pods      []corev1.Pod
		was, want bool
	}{
		{"ready", []corev1.Pod{vipPod("b", "True", 0)}, false, false},
		{"ready again for a moment", []corev1.Pod{vipPod("b", "True", 30*time.Second)}, true, true},
		{"ready again", []corev1.Pod{vipPod("b", "True", 61*time.Second)}, true, false},
		{"not ready for a moment", []corev1.Pod{vipPod("b", "False", 110*time.Second)}, false, false},
		{"not ready", []corev1.Pod{vipPod("b", "False", 121*time.Second)}, false, true},
		{"crashed again", []corev1.Pod{vipPod("b", "False", time.Second)}, true, true},
		{"its former one, too", []corev1.Pod{vipPod("b", "False", time.Hour), vipPod("b", "True", 0)}, false, false},
		{"not there", []corev1.Pod{stranger}, false, false},
		{"not there any more", []corev1.Pod{stranger}, true, true},
		{"not to be listed", nil, true, false},
		{"without a state since it was made", []corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}, Spec: corev1.PodSpec{NodeName: "b"},
		}}, false, true},
	} {
		age := func(_ string, _ bool, since time.Time) (least, most time.Duration) {
			return time.Since(since), time.Since(since)
		}
		if got := podSilent(tt.pods, "b", tt.was, age); got != tt.want {
			t.Errorf("%s: silent is %t, want %t", tt.name, got, tt.want)
		}
	}
}

// The clock of another control plane may be ahead or behind: its vote comes back by this machine's clock, and goes in time.
func TestSightings_OtherClocks(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		h, _ := holderOf(t, "a", "b")
		now := time.Now()
		h.now = func() time.Time { return now }
		nodes := []corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "True", 0)}
		changed := now.Add(-time.Hour)
		vote := func(after time.Duration, ready corev1.ConditionStatus, change bool) bool {
			t.Helper()
			now = now.Add(after)
			if change {
				changed = now.Add(skew)
			}
			p := vipPod("b", ready, time.Since(changed))
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(changed)
			must(t, h.learn(slices.Clone(nodes), []corev1.Pod{p}))
			return !h.silent("b")
		}
		for _, step := range []struct {
			after  time.Duration
			ready  corev1.ConditionStatus
			change bool
			want   bool
		}{
			{0, "True", false, true},
			{time.Second, "False", true, skew >= 0}, // one that is an hour behind says that it lasts for an hour
			{podSilentFor - time.Second, "False", false, skew >= 0},
			{2 * time.Second, "False", false, false},
			{time.Second, "True", true, false},
			{podBackFor - time.Second, "True", false, false},
			{2 * time.Second, "True", false, true},
		} {
			if got := vote(step.after, step.ready, step.change); got != step.want {
				t.Errorf("clock %s off: Ready is %s for %s, and b has a vote: %t, want %t", skew, step.ready, step.after, got, step.want)
			}
		}
	}
}

// A process that starts again counts with both lists: the one in which all have a vote, and the shorter one that it went by.
func TestHolder_StartsAsItEnded(t *testing.T) {
	h, _ := holderOf(t, "a", "b")
	nodes := []corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "True", 0), controlPlane("c", "True", 0)}
	must(t, h.learn(nodes, []corev1.Pod{vipPod("c", "False", time.Hour)}))
	again, _ := holderOf(t)
	var err error
	again.members, err = readMembers(h.file)
	must(t, err)
	v := again.view()
	if diff := cmp.Diff([][]string{{"a", "b"}, {"a", "b", "c"}, {"c"}}, [][]string{v.Members, v.All, v.Silent}); diff != "" {
		t.Errorf("members, all and silent (-want +got):\n%s", diff)
	}
}

// vipPod is the static pod of a Node, Ready or not for a time.
func vipPod(node string, ready corev1.ConditionStatus, since time.Duration) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ccmadm-vip-" + node}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(time.Now().Add(-since))},
	}
	return p
}

// What cannot be kept is not acted upon: after its next start this process would count with an older list than others.
func TestHolder_LearnsNothingThatItCannotKeep(t *testing.T) {
	h, told := holderOf(t, "a")
	h.file = filepath.Join(t.TempDir(), "gone", "members.json")
	err := h.learn([]corev1.Node{controlPlane("a", "True", 0), controlPlane("b", "True", 0)}, nil)
	if err == nil || len(told.Members) != 0 || len(h.members) != 1 {
		t.Errorf("%v: the announcer was told %v", err, told.Members)
	}
}

func TestHolder_View(t *testing.T) {
	h, _ := holderOf(t, "a", "b")
	if v := h.view(); !v.Draining || len(v.Claims) != 1 || !v.Claims[0].Probed || !v.Claims[0].Here("b") {
		t.Errorf("view before the API server answers is %+v: others are better, and the network was asked", v)
	}
	h.healthy = true
	if h.view().Draining {
		t.Error("it drains while its API server answers")
	}
}

// healthOf asks an API server that answers so, until it is closed.
func healthOf(t *testing.T, answers http.HandlerFunc) (*health, *httptest.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(answers)
	certificate, ca := apiServerCertificate(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	must(t, err)
	port, err := strconv.Atoi(u.Port())
	must(t, err)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca}), 0o600))
	h, err := newHealth(caFile, port)
	must(t, err)
	h.client.Timeout = time.Minute // not for what a busy machine is late with
	return h, server
}

// What answers is alive, even if it wants to know who asks; one failure is none yet.
func TestHealth(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusServiceUnavailable)
	h, server := healthOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" {
			w.WriteHeader(http.StatusNotFound)
		}
		w.WriteHeader(int(code.Load()))
	})
	told := make(chan bool, 16)
	refuse := true
	go h.watch(t.Context(), func(healthy bool) error {
		told <- healthy
		if healthy && refuse {
			refuse = false
			return errors.New("not yet")
		}
		return nil
	})
	expect := func(want bool) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("told %t, want %t", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("told nothing within a minute, want %t", want)
		}
	}
	expect(false)
	code.Store(http.StatusUnauthorized)
	expect(true)
	expect(true) // what could not be done is to be done again
	start := time.Now()
	code.Store(http.StatusInternalServerError)
	expect(false)
	if took := time.Since(start); took < healthInterval*(healthFailures-2) {
		t.Errorf("unhealthy after %s: a single failure is none", took)
	}
	code.Store(http.StatusOK)
	expect(true)
	server.Close()
	expect(false) // nobody listens
}

// A server that answers over the connections that it has, and accepts no other, is none that clients reach.
func TestHealth_NewConnections(t *testing.T) {
	var kept atomic.Bool
	h, server := healthOf(t, func(_ http.ResponseWriter, r *http.Request) {
		if !r.Close {
			kept.Store(true)
		}
	})
	must(t, h.ask(t.Context()))
	must(t, server.Listener.Close())
	if err := h.ask(t.Context()); err == nil || kept.Load() {
		t.Errorf("it got %v, and asked to keep a connection: %t", err, kept.Load())
	}
}

func TestHeartbeatKey(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "sa.key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const one, other = "-----BEGIN RSA PRIVATE KEY-----one", "-----BEGIN RSA PRIVATE KEY-----two"
	a, err := heartbeatKey(write(one))
	if err != nil {
		t.Fatal(err)
	}
	b, errB := heartbeatKey(write(one))
	c, errC := heartbeatKey(write(other))
	if errB != nil || errC != nil || string(a) != string(b) || string(a) == string(c) || len(a) != 32 {
		t.Errorf("keys are %x, %x and %x", a, b, c)
	}
	if _, err := heartbeatKey(write("short")); err == nil {
		t.Error("a file of five bytes is a secret")
	}
}
