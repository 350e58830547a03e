//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequiredVersion(t *testing.T) {
	tests := []struct {
		name, gomod, want, wantErr string
	}{
		{name: "in a block", gomod: "require (\n\tk8s.io/kubernetes v1.36.3\n)\n", want: "v1.36.3"},
		{name: "on a line", gomod: "require k8s.io/kubernetes v1.36.3\n", want: "v1.36.3"},
		{name: "indirect", gomod: "\tk8s.io/kubernetes v1.36.3 // indirect\n", want: "v1.36.3"},
		{name: "only a tool", gomod: "tool k8s.io/kubernetes/cmd/kubeadm\n", wantErr: "does not require k8s.io/kubernetes"},
		{name: "a longer path", gomod: "\tk8s.io/kubernetes/x v1.0.0\n", wantErr: "does not require"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := requiredVersion(tt.gomod, "k8s.io/kubernetes")
			checkError(t, err, tt.wantErr)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTagOf(t *testing.T) {
	images := []string{"registry.k8s.io/coredns/coredns:v1.14.2", "registry.k8s.io/pause:3.10.2"}
	for name, want := range map[string]string{"coredns": "v1.14.2", "pause": "3.10.2", "etcd": "."} {
		if got := tagOf(images, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestCached(t *testing.T) {
	b := builder{cache: t.TempDir(), out: io.Discard}
	calls := 0
	fill := func(dir string) error {
		calls++
		return os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
	}
	crash := func(string) error { return errors.New("disk full") }
	_, err := b.cached(t.Context(), "thing", []string{"a"}, crash)
	checkError(t, err, "thing: disk full")
	first, err := b.cached(t.Context(), "thing", []string{"a"}, fill)
	checkError(t, err, "")
	again, err := b.cached(t.Context(), "thing", []string{"a"}, fill)
	checkError(t, err, "")
	other, err := b.cached(t.Context(), "thing", []string{"b"}, fill)
	checkError(t, err, "")
	if first != again || first == other || calls != 2 {
		t.Errorf("got %q, %q and %q after %d calls, want the first twice and two calls", first, again, other, calls)
	}
	if _, err := os.Stat(filepath.Join(first, "file")); err != nil {
		t.Error(err)
	}
}

func TestCloneTree(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	if err := os.MkdirAll(filepath.Join(from, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"meta.db", "blobs/one"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte("seed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := cloneTree(from, to); err != nil {
		t.Fatal(err)
	}
	for name, shared := range map[string]bool{"meta.db": false, "blobs/one": true} {
		if got := os.SameFile(stat(t, from, name), stat(t, to, name)); got != shared {
			t.Errorf("%s: shared %t, want %t", name, got, shared)
		}
	}
	if got := stat(t, to, "blobs").Mode().Perm(); got != 0o700 {
		t.Errorf("mode of folder: %o", got)
	}
}

func stat(t *testing.T, elements ...string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestInlinedPackages: with other packages inlined, all that imports these would be compiled once more for ccmadm.
func TestInlinedPackages(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nINLINED  := " + strings.Join(inlinedPackages(), " ") + "\n"; !strings.Contains(string(text), want) {
		t.Errorf("the Makefile lacks %q", want)
	}
}
