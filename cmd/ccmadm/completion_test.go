package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
)

// complete is what a shell is offered for a command line whose last word is being typed.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	code, out, _ := ccmadm(t.Context(), append([]string{"__complete"}, words...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], ":") {
		t.Fatalf("%q: exit status %d, output %q", words, code, out)
	}
	var values []string
	for _, line := range lines[:len(lines)-1] {
		value, _, _ := strings.Cut(line, "\t")
		values = append(values, value)
	}
	return values
}

func TestCompletion(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfig(t, "site-a", apiServer(t, clusterObjects)))
	for _, tc := range []struct {
		line string // _ is the word that is typed, without a letter yet
		want []string
		not  string
	}{
		{line: "init --provider aw", want: []string{"aws"}},
		{line: "init --provider _", want: []string{"onprem", "aws", "auto"}},
		{line: "init phase addon --provider aw", want: []string{"aws"}},
		{line: "render --provider aw", want: []string{"aws"}},
		{line: "init --mode _", want: []string{"StaticPod", "DaemonSet", "Deployment", "Manual"}},
		{line: "adopt --mode _", want: []string{"DaemonSet", "Deployment"}, not: "StaticPod"},
		{line: "adopt --via _", want: []string{"hand", "pods", "ssh"}},
		{line: "images load --via _", want: []string{"pods", "ssh"}, not: "hand"},
		{line: "init -o _", want: []string{"text", "json", "yaml"}, not: "wide"},
		{line: "status -o _", want: []string{"text", "wide", "json", "yaml"}},
		{line: "doctor --output _", want: []string{"sarif", "html"}},
		{line: "wait --for Add", want: []string{"Addressed"}},
		{line: "status --context _", want: []string{"site-a"}},
		{line: "status --contexts _", want: []string{"site-a"}},
		{line: "status --contexts site-b,", want: []string{"site-b,site-a"}},
		{line: "status --contexts site-a,", not: "site-a,site-a"},
		{line: "status --cluster _", want: []string{"site-a"}},
		{line: "status _", want: []string{"cp1", "w1"}},
		{line: "status cp1 _", want: []string{"w1"}, not: "cp1"},
		{line: "why _", want: []string{"cp1", "w1"}},
		{line: "doctor w", want: []string{"w1"}},
		{line: "lb pools _", want: []string{"lan"}},
		{line: "lb why _", want: []string{"shop/web"}, not: "default/kubernetes"},
		{line: "lb move _", want: []string{"shop/web"}, not: "default/kubernetes"},
		{line: "lb move mail/smtp _", want: []string{"shop/web"}, not: "default/kubernetes"},
		{line: "lb move shop/web _", not: "shop/web"},
		{line: "lb move mail/smtp mail/imap _", not: "shop/web"},
		{line: "explain A1", want: []string{"A19"}},
		{line: "explain nodeAgent.", want: []string{"nodeAgent.enabled"}},
		{line: "provider show aw", want: []string{"aws"}},
		{line: "config schema Inv", want: []string{"Inventory"}},
	} {
		words := strings.Fields(tc.line)
		if last := &words[len(words)-1]; *last == "_" {
			*last = ""
		}
		got := complete(t, words...)
		for _, want := range tc.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: got %q, no %s", tc.line, got, want)
			}
		}
		if tc.not != "" && slices.Contains(got, tc.not) {
			t.Errorf("%s: got %q, and %s is not wanted", tc.line, got, tc.not)
		}
	}
}

// clusterObjects are lists of a small cluster.
func clusterObjects(w http.ResponseWriter, r *http.Request) {
	body := map[string]string{
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"cp1"}},{"metadata":{"name":"w1"}}]}`,
		"/api/v1/services": `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"namespace":"shop","name":"web"},` +
			`"spec":{"type":"LoadBalancer"}},{"metadata":{"namespace":"default","name":"kubernetes"},"spec":{"type":"ClusterIP"}}]}`,
		"/apis/ccmadm.dev/v1alpha1/addresspools": `{"kind":"AddressPoolList","apiVersion":"ccmadm.dev/v1alpha1","items":` +
			`[{"metadata":{"name":"lan"},"spec":{"ranges":["192.0.2.0/28"]}}]}`,
	}[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	if body == "" {
		w.WriteHeader(http.StatusNotFound)
		body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	_, _ = w.Write([]byte(body))
}

// A cluster that cannot be asked offers nothing, prints nothing, and takes no longer than a person waits.
func TestCompletion_WithoutACluster(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	slow := filepath.Join(t.TempDir(), "slow") // its credentials come from a program that does not end in time
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n" +
		"clusters: [{name: a, cluster: {server: 'https://" + silent.Addr().String() + "'}}]\n" +
		"users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: ['8'], interactiveMode: Never}}}]\n"
	if err := os.WriteFile(slow, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"refused":          {"--server", "https://127.0.0.1:1"},
		"no answer":        {"--server", "https://" + silent.Addr().String()},
		"slow credentials": {"--kubeconfig", slow},
		"no file":          {"--kubeconfig", slow + "-away"},
		"forbidden":        {"--kubeconfig", kubeconfig(t, "f", apiServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))},
	} {
		for _, command := range [][]string{{"status"}, {"lb", "pools"}, {"lb", "why"}, {"journal"}} {
			t.Run(name+", "+strings.Join(command, " "), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				got := complete(t, append(append(slices.Clone(command), args...), "")...)
				if took := time.Since(began); took > completion.Patience+10*time.Second { // some for a busy machine
					t.Errorf("took %s", took)
				}
				if len(got) > 0 {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}
