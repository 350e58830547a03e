package contexts

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// server is an API server with a certificate of its own.
func server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func to(name string, s *httptest.Server) Context {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return Context{Name: name, Config: &rest.Config{
		Host: s.URL, BearerToken: "x", QPS: 50, Burst: 100, TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}}
}

const record = `apiVersion: ccmadm.dev/v1alpha1
kind: Record
writtenBy: v0.9.1
configuration: {provider: onprem, clusterName: ber1, mode: StaticPod}
`

// cluster has w1, which is Ready, w2, which may wait, a leader, and a record.
func cluster(waits, recorded bool) http.HandlerFunc {
	node := func(name string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.ProviderID = "onprem://ber1/" + name
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.11"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.NodeInfo.KubeletVersion = "v1.36.2"
		return n
	}
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{node("w1"), node("w2")}}
	if waits {
		list.Items[1].Spec.ProviderID = ""
		list.Items[1].Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
	}
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: v1alpha1.Namespace}}
	lease.Kind, lease.APIVersion = "Lease", "coordination.k8s.io/v1"
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new("cp1_1"), LeaseDurationSeconds: new(int32(600)), RenewTime: &metav1.MicroTime{Time: time.Now()},
	}
	answers := map[string]any{
		"/version":      map[string]string{"gitVersion": "v1.36.3"},
		"/api/v1/nodes": list,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + v1alpha1.LeaseName: lease,
	}
	if recorded {
		answers["/api/v1/namespaces/kube-system/configmaps/"+v1alpha1.RecordName] = corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{v1alpha1.RecordKey: record},
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			status(w, http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(code), Message: "no",
	})
}

func fails(code int, reason metav1.StatusReason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { status(w, code, reason) }
}

// hangs answers when its client has gone.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// One cluster of each kind is asked at the same time: each has the row that is due to it, in the time of the slowest.
func TestAsk(t *testing.T) {
	const limit = 5 * time.Second // within which a busy machine, too, answers for the others
	well, closed, plain := server(t, cluster(false, true)), server(t, hangs), httptest.NewServer(http.HandlerFunc(hangs))
	t.Cleanup(plain.Close)
	gone := to("refused", closed)
	closed.Close()
	bad := to("bad-certificate", server(t, cluster(false, true)))
	bad.Config.CAData = nil
	http1 := to("plain", well)
	http1.Config.Host = strings.Replace(plain.URL, "http:", "https:", 1)
	unseen := cluster(false, true)
	list := []Context{
		to("well", well), to("hangs", server(t, hangs)), to("hangs-too", server(t, hangs)),
		to("unavailable", server(t, fails(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable))),
		bad, gone, http1, to("unauthorized", server(t, fails(http.StatusUnauthorized, metav1.StatusReasonUnauthorized))),
		to("web", server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })),
		{Name: "nowhere", Err: ErrNoContext},
		{Name: "half", Err: finding.Usagef("load kubeconfig: there is no user")},
		to("waits", server(t, cluster(true, false))),
		to("no-record-seen", server(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/configmaps/") {
				status(w, http.StatusForbidden, metav1.StatusReasonForbidden)
				return
			}
			unseen(w, r)
		})),
		to("no-nodes-seen", server(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/nodes" {
				status(w, http.StatusForbidden, metav1.StatusReasonForbidden)
				return
			}
			unseen(w, r)
		})),
	}
	began := time.Now()
	o := Options{Timeout: limit, AtOnce: len(list)}
	rows := o.Ask(t.Context(), list)
	if took := time.Since(began); took < limit || took >= 2*limit {
		t.Errorf("the clusters took %s, want some %s", took, limit)
	}
	want := map[string]Reason{
		"well": "", "hangs": Timeout, "hangs-too": Timeout, "unavailable": Unavailable, "bad-certificate": TLS, "refused": Refused,
		"plain": TLS, "unauthorized": Credentials, "web": NotKubernetes, "nowhere": NoContext, "half": Kubeconfig, "waits": "",
		"no-record-seen": "", "no-nodes-seen": Forbidden,
	}
	byName := map[string]Row{}
	for i, r := range rows {
		byName[r.Context] = r
		reason := Reason("")
		if r.Unasked != nil {
			reason = r.Unasked.Reason
		}
		if r.Context != list[i].Name || reason != want[r.Context] {
			t.Errorf("row %d is %s with reason %q (%+v), want %s with %q", i, r.Context, reason, r.Unasked, list[i].Name, want[list[i].Name])
		}
	}
	w := byName["well"]
	if w.Record == nil || w.Record.WrittenBy != "v0.9.1" || w.Leader != "cp1_1" || w.Nodes == nil || w.Nodes.Ready != 2 || len(w.Wrong) > 0 ||
		w.Certificate == nil || !w.Certificate.Ends.Equal(well.Certificate().NotAfter) {
		t.Errorf("the well cluster's row is %+v", w)
	}
	if r := byName["waits"]; r.Nodes == nil || r.Nodes.NotInitialized != 1 || r.Nodes.Total != 2 || len(r.Wrong) != 1 || r.Record != nil {
		t.Errorf("the row of the cluster with a Node that waits is %+v", r)
	}
	if version, _, _ := new(byName["waits"]).recordCells(); version != "none" {
		t.Errorf("no record is shown as %q", version)
	}
	if version, _, _ := new(byName["no-record-seen"]).recordCells(); version != unknown {
		t.Errorf("a record that may not be read is shown as %q", version)
	}
	if ready, _, _ := new(byName["no-nodes-seen"]).nodeCells(); ready != unknown {
		t.Errorf("Nodes that may not be read are shown as %q", ready)
	}
	for _, cell := range new(byName["hangs"]).cells(false)[1:9] {
		if cell != unknown {
			t.Errorf("a cluster that cannot be asked has a cell %q", cell)
		}
	}
}

// No more clusters than that are asked at a time, and one that hangs keeps its slot only for its own time.
func TestAsk_AtOnce(t *testing.T) {
	const limit = 3 * time.Second
	dead, well := server(t, hangs), server(t, cluster(false, true))
	o := Options{Timeout: limit, AtOnce: 1}
	began := time.Now()
	rows := o.Ask(t.Context(), []Context{to("a", dead), to("b", dead), to("c", well)})
	if took := time.Since(began); took < 2*limit {
		t.Errorf("two clusters that hang took %s, one after the other", took)
	}
	if rows[0].Unasked == nil || rows[2].Unasked != nil || rows[0].Seconds < limit.Seconds() {
		t.Errorf("rows are %+v", rows)
	}
}

// A program for credentials that does not end holds up nothing but its own row.
func TestAsk_CredentialProgramHangs(t *testing.T) {
	c := to("a", server(t, cluster(false, true)))
	c.Config.BearerToken = ""
	c.Config.ExecProvider = &api.ExecConfig{
		Command: "sleep", Args: []string{"8"}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode,
	}
	began := time.Now()
	rows := (&Options{Timeout: time.Second, AtOnce: 8, Kubeconfig: "fleet.conf"}).Ask(t.Context(), []Context{c})
	if took := time.Since(began); took > 30*time.Second || rows[0].Unasked == nil || rows[0].Unasked.Reason != Timeout {
		t.Fatalf("after %s: %+v", took, rows[0].Unasked)
	}
	if want := "ccmadm status -v 6 --kubeconfig fleet.conf --context a"; !strings.HasSuffix(rows[0].Unasked.Next, want) {
		t.Errorf("next is %q, want %q", rows[0].Unasked.Next, want)
	}
}

// Ctrl-C ends the command at once, whatever clusters do.
func TestAsk_Interrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	rows := (&Options{Timeout: time.Minute, AtOnce: 8}).Ask(ctx, []Context{to("a", server(t, hangs))})
	if took := time.Since(began); took > 30*time.Second || rows[0].Unasked == nil {
		t.Errorf("after %s: %+v", took, rows[0])
	}
}

func TestSelect(t *testing.T) {
	kubeconfig := &api.Config{Contexts: map[string]*api.Context{"b": {}, "a": {}, "c": {}}}
	connect := func(name string) (*rest.Config, error) { return &rest.Config{Host: name}, nil }
	for _, tc := range []struct {
		names []string
		all   bool
		want  string
	}{
		{all: true, want: "a b c"},
		{names: []string{"c", "a", "c"}, want: "c a"},
		{names: []string{"x", "a"}, want: "x! a"},
	} {
		list, err := Select(kubeconfig, tc.names, tc.all, connect)
		var got []string
		for _, c := range list {
			if errors.Is(c.Err, ErrNoContext) {
				c.Name += "!"
			}
			got = append(got, c.Name)
		}
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%v: got %v, %v; want %s", tc.names, got, err, tc.want)
		}
	}
	for name, k := range map[string]*api.Config{"no contexts": {}, "name is empty": kubeconfig} {
		_, err := Select(k, []string{""}, false, connect)
		if known := new(finding.Error); !errors.As(err, &known) || known.Code != finding.ExitUsage || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestVerdict(t *testing.T) {
	kubeconfig := &api.Config{Contexts: map[string]*api.Context{"b": {}, "a": {}}}
	late, dead := Row{Context: "a", Wrong: []string{"w1 Claimed"}}, Row{Context: "b", Unasked: &Unasked{Reason: Refused, Next: "look"}}
	missing := Row{Context: "x", Unasked: &Unasked{Reason: NoContext}}
	for _, tc := range []struct {
		rows []Row
		code finding.ExitCode
		text string
	}{
		{rows: []Row{{Context: "a"}}},
		{rows: []Row{{Context: "b"}, late}, code: finding.ExitNotInTime, text: "status: a: w1 Claimed"},
		{rows: []Row{dead, late}, code: finding.ExitError, text: "b cannot be asked: Refused"},
		{rows: []Row{dead, late, missing}, code: finding.ExitUsage, text: `no context "x"`},
	} {
		err := (&Options{}).Verdict(tc.rows, kubeconfig)
		known := new(finding.Error)
		if tc.code == finding.ExitDone {
			if err != nil {
				t.Errorf("a cluster that is well: %v", err)
			}
			continue
		}
		if !errors.As(err, &known) || known.Code != tc.code || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%+v: got %v, want %d with %q", tc.rows, err, tc.code, tc.text)
		}
		if tc.code == finding.ExitUsage && !strings.Contains(known.Hint, "contexts are a, b") {
			t.Errorf("the hint has no names: %q", known.Hint)
		}
	}
}

// The command of a hint leads to the cluster of the row, whatever its name, and has the kubeconfig that was given.
func TestVerdict_Hint(t *testing.T) {
	rows := []Row{{Context: "kubernetes-admin@ber 1", Wrong: []string{"w1 Claimed"}}}
	for file, want := range map[string]string{
		"":           "ccmadm status --context 'kubernetes-admin@ber 1' shows more",
		"fleet.conf": "ccmadm status --kubeconfig fleet.conf --context 'kubernetes-admin@ber 1' shows more",
	} {
		known := new(finding.Error)
		if err := (&Options{Kubeconfig: file}).Verdict(rows, &api.Config{}); !errors.As(err, &known) || known.Hint != want {
			t.Errorf("--kubeconfig %q: got the hint %q, want %q", file, known.Hint, want)
		}
	}
}

const attack = `"><img src=x onerror=alert(1)><script>alert(1)</script></style></td>'` + "\x1b[31m\u202e"

// A name of a Node or a context becomes no element, and no attribute.
func TestPages_HostileText(t *testing.T) {
	rows := []Row{
		{Context: attack, Unasked: &Unasked{Reason: TLS, Message: attack}},
		{
			Context: "b", Server: attack, Versions: []string{attack}, Leader: attack, Record: &Record{WrittenBy: attack},
			Nodes: &Nodes{Kubelets: []string{attack}}, Wrong: []string{attack},
		},
	}
	report := &nodes.Report{Leader: attack, Nodes: []nodes.Status{
		{Node: attack, ProviderID: attack, Zone: attack, Cause: &finding.Finding{Message: attack}},
	}}
	for name, write := range map[string]func(io.Writer) error{
		"many": func(out io.Writer) error { return WritePage(out, rows, time.Now()) },
		"one":  func(out io.Writer) error { return WriteCluster(out, report, []string{attack}, time.Now()) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, "&lt;script&gt;") {
			t.Errorf("%s: text is not cleaned and escaped", name)
		}
		if !strings.Contains(text, "prefers-color-scheme: dark") || !strings.Contains(text, "default-src 'none'") &&
			!strings.Contains(text, "default-src &#39;none&#39;") {
			t.Errorf("%s: the page has no dark colours or no policy", name)
		}
		cells := 0
		for tokens := html.NewTokenizer(strings.NewReader(text)); tokens.Next() != html.ErrorToken; {
			token := tokens.Token()
			if token.Type == html.TextToken {
				continue
			}
			switch token.Data {
			case "script", "img", "iframe", "link", "object", "svg", "form", "input", "a":
				t.Errorf("%s: the page has an element %s", name, token)
			case "td":
				cells++
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" {
					t.Errorf("%s: the page has %s", name, token)
				}
			}
		}
		if cells == 0 {
			t.Errorf("%s: the page has no table", name)
		}
	}
}

// The certificate that ends first is found among those of the server and of the kubeconfig.
func TestFirstToEnd(t *testing.T) {
	s := server(t, hangs)
	if got := firstToEnd(to("a", s).Config, nil); got == nil || got.Name != "CA of the kubeconfig" {
		t.Errorf("got %+v", got)
	}
	if got := firstToEnd(&rest.Config{}, nil); got != nil {
		t.Errorf("without certificates there is %+v", got)
	}
	early := &x509.Certificate{NotAfter: time.Unix(0, 0)}
	if got := earliest(nil, "API server", []*x509.Certificate{s.Certificate(), early}); !got.Ends.Equal(early.NotAfter) {
		t.Errorf("got %+v", got)
	}
}
