package edit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

const pod = `# a pod
apiVersion: v1
kind: Pod
spec:
  # where
  containers:
  - name: a # main
    args: ["--v=2", --port=0]  # flow
    # the image
    image: 'x:1'
  - image: y
    env:
    - {name: A}
    name: b
  dnsPolicy:
`

func TestDocument(t *testing.T) {
	insert := func(fragment string, path ...string) func(*edit.Document) error {
		return func(d *edit.Document) error { return d.Insert(yaml.MustParse(fragment).YNode(), path...) }
	}
	set := func(value string, path ...string) func(*edit.Document) error {
		return func(d *edit.Document) error { return d.Set(yaml.MustParse(value).YNode(), path...) }
	}
	cases := []struct {
		name     string
		edit     func(*edit.Document) error
		old, new string // the one change in pod
		wantErr  string
	}{
		{"a key that is missing", set("true", "spec", "hostNetwork"), "spec:\n", "spec:\n  hostNetwork: true\n", ""},
		{"a key below the header", set("x", "extra"), "kind: Pod\n", "kind: Pod\nextra: x\n", ""},
		{"a null", set("Default", "spec", "dnsPolicy"), "dnsPolicy:", "dnsPolicy: Default", ""},
		{"quotes stay", set("x:2", "spec", "containers", "0", "image"), "'x:1'", "'x:2'", ""},
		{"an item in flow style", set("--v=4", "spec", "containers", "0", "args", "0"), `"--v=2"`, `"--v=4"`, ""},
		{"an item in front", insert("[--a=b]", "spec", "containers", "0", "args"), `["--v=2"`, `["--a=b", "--v=2"`, ""},
		{
			"a key of an item",
			insert("tty: true", "spec", "containers", "0"),
			"  - name: a # main\n",
			"  - name: a # main\n    tty: true\n",
			"",
		},
		{
			"a list of an item",
			insert("- --a=b", "spec", "containers", "1", "args"),
			"  - image: y\n",
			"  - image: y\n    args:\n    - --a=b\n",
			"",
		},
		{
			"other than strings in flow style",
			insert("{optional: true, mode: 288, hint: none}", "spec", "containers", "1", "env", "0"),
			"{name: A}",
			`{"optional": true, "mode": 288, "hint": "none", name: A}`,
			"",
		},
		{"no such item", set("x", "spec", "containers", "7", "name"), "", "", "want a mapping"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			docs, err := edit.Split("pod.yaml", pod)
			if err != nil {
				t.Fatal(err)
			}
			d := docs[0]
			if err := d.Parse(); err != nil {
				t.Fatal(err)
			}
			err = c.edit(d)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("got error %v, want %q", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Replace(pod, c.old, c.new, 1), d.Text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// After an edit that is refused, the document is as it was.
func TestDocument_Refused(t *testing.T) {
	const text = "? spec\n: a: b\nother: {c: d}\n"
	d := &edit.Document{File: "odd.yaml", Text: text, Line: 1}
	if err := d.Parse(); err != nil {
		t.Fatal(err)
	}
	if err := d.Insert(yaml.MustParse("x: y").YNode(), "spec"); !errors.Is(err, edit.ErrUneditable) {
		t.Fatalf("got error %v, want %v", err, edit.ErrUneditable)
	}
	if edit.Lookup(d.At([]string{"spec"}), "x") != nil || d.Text != text {
		t.Errorf("the edit is half done, in\n%s", d.Text)
	}
	if err := d.Insert(yaml.MustParse("x: y").YNode(), "other"); err != nil {
		t.Error(err)
	}
	if want := strings.Replace(text, "{", `{"x": "y", `, 1); d.Text != want {
		t.Errorf("got %q, want %q", d.Text, want)
	}
}
