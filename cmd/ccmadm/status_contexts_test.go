package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

// manyKubeconfig has the contexts well and waits, one whose server has gone, and one that hangs.
func manyKubeconfig(t *testing.T) string {
	t.Helper()
	versioned := func(waits bool) http.HandlerFunc {
		rest := oneNode(waits)
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
				return
			}
			rest(w, r)
		}
	}
	closed := apiServer(t, versioned(false))
	gone := kubeconfig(t, "gone", closed)
	closed.Close()
	return strings.Join([]string{
		kubeconfig(t, "well", apiServer(t, versioned(false))), kubeconfig(t, "waits", apiServer(t, versioned(true))), gone,
		kubeconfig(t, "hangs", apiServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })),
	}, ":")
}

func TestStatus_Contexts(t *testing.T) {
	klog.ClearLogger() // that of the tests with a cluster, which swallows all
	many := manyKubeconfig(t)
	t.Setenv("KUBECONFIG", many)
	waits := strings.Split(many, ":")[1]
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		code int
		out  []string
		err  string
	}{
		{args: "status --contexts well,well", out: []string{"CONTEXT", "well     v1.36.3", "1/1", "ready"}},
		{args: "status --contexts well,waits", code: 4, out: []string{"not ready: w1 Claimed"}, err: "status: waits: w1 Claimed"},
		{args: "status --contexts waits", code: 4, err: "hint: ccmadm status --context waits shows more"},
		{
			args: "status --contexts waits --kubeconfig " + waits, code: 4,
			err: "hint: ccmadm status --kubeconfig " + waits + " --context waits shows more",
		},
		{
			args: "status --all-contexts --timeout 5s", code: 1, out: []string{"Timeout: ", "Refused: ", "well", "waits"},
			err: "gone cannot be asked: Refused",
		},
		{args: "status --contexts well,nowhere", code: 2, out: []string{"well", "NoContext"}, err: "contexts are gone, hangs, waits, well"},
		{args: "status --contexts well -o json", out: []string{`{"context":"well",`, `"ready":1`}},
		{args: "status --contexts well -o yaml", out: []string{"context: well\n"}},
		{args: "status --contexts well -o wide", out: []string{"SERVER", "https://127.0.0.1"}},
		{args: "status --contexts well -o html", out: []string{"<!DOCTYPE html>", "<td>well</td>"}},
		{args: "status --context well -o html", out: []string{"<td>w1</td>", "prefers-color-scheme"}},
		{args: "status --context waits -o html", code: 4, out: []string{"<td>w1</td>"}, err: "w1 Claimed"},
		{args: "status --contexts well --findings=false -o json", out: []string{`"context":"well"`}},
		{args: "status --all-contexts --kubeconfig " + empty, code: 2, err: "it has no contexts"},
		{args: "status --contexts well w1", code: 2, err: "names of Nodes are for one cluster"},
		{args: "status --contexts well --context well", code: 2, err: "context contexts"},
		{args: "status --contexts= ", code: 2, err: "it names no context"},
		{args: "status --contexts well --timeout 0s", code: 2, err: "read --timeout"},
		{args: "status --contexts well --at-once 0", code: 2, err: "read --at-once"},
		{args: "status --timeout 3s", code: 2, err: "are for --contexts"},
		{args: "status --watch -o json", code: 2, err: "--watch shows text or wide"},
		{args: "status --watch --interval 1ms", code: 2, err: "less than a second"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, out, errs := ccmadm(t.Context(), strings.Fields(tc.args)...)
			if code != tc.code || !strings.Contains(errs, tc.err) || tc.code == 0 && strings.Contains(errs, "error") {
				t.Errorf("exit status %d, want %d with %q\n%s\n%s", code, tc.code, tc.err, out, errs)
			}
			for _, want := range tc.out {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
			if strings.Contains(tc.args, "well,well") && strings.Count(out, "v1.36.3") != 1 {
				t.Errorf("a context given twice has not one row:\n%s", out)
			}
		})
	}
}

// third ends a command once it has written a text three times: two looks have come to their end by then.
type third struct {
	bytes.Buffer

	text string
	end  func()
}

func (w *third) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Count(w.String(), w.text) >= 3 {
		w.end()
	}
	return n, err
}

// Without a terminal --watch writes blocks, and Ctrl-C ends it with the status of the last one.
func TestStatus_Watch(t *testing.T) {
	t.Setenv("KUBECONFIG", manyKubeconfig(t))
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"status --watch --interval 1s --context well":               {0, "w1    Ready"},
		"status --watch --interval 1s --contexts waits,well":        {4, "not ready: w1 Claimed"},
		"status --watch --interval 1s --contexts gone -o wide":      {1, "Refused"},
		"status --watch --interval 1s --context gone --output=wide": {1, "reach the API server"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a busy machine takes its time for a look
		out := third{text: want.text, end: cancel}
		var errs bytes.Buffer
		s := workflow.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: os.Getenv}
		code := run(ctx, s, append([]string{"ccmadm"}, strings.Fields(args)...))
		if code != want.code || ctx.Err() == nil || strings.Count(out.String(), want.text) < 3 ||
			!strings.Contains(out.String(), time.Now().Format("2006-")) {
			t.Errorf("%s: exit status %d, want %d and %q three times\n%s\n%s", args, code, want.code, want.text, &out.Buffer, &errs)
		}
		cancel()
	}
}
