package journal

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// nodesRun is a run of adopt over so many nodes, which stopped at the last one.
func nodesRun(id, nodes int, state State) Run {
	r := Run{ID: id, Command: "adopt", Holder: fmt.Sprint(id), State: state, Began: now()}
	for i := range nodes {
		r.Steps = append(r.Steps, Step{
			Name: "kubelet", Node: fmt.Sprintf("w%d", i), State: Done, Began: now(), What: noise(600),
		})
	}
	if state != Done {
		r.Steps[nodes-1].State = state
	}
	return r
}

// noise is text that has size bytes when it is packed, and a third more before.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// kept is ID and steps of each run, and how many bytes they are.
func kept(runs []Run, list documents) (string, int) {
	var all []string
	size := 0
	for _, r := range runs {
		text := fmt.Sprintf("%d:%d", r.ID, len(r.Steps))
		if r.Shortened {
			text += " short"
		}
		all, size = append(all, text), size+len(list.text[r.key()])+len(list.packed[r.key()+ending])
	}
	return strings.Join(all, " "), size
}

// A run that did not come to its end is there until the one that has taken it up is let go with it. What did not
// succeed is there until it is repeated.
func TestEncode_WhatHasNotSucceededStays(t *testing.T) {
	for _, tt := range []struct {
		name string
		runs []Run
		want string // ID and steps of each
	}{
		{
			name: "large, and taken up",
			runs: []Run{nodesRun(1, 400, CutShort), nodesRun(2, 10, Done)}, want: "1:400 2:10",
		},
		{
			name: "large, and nobody's any more",
			runs: []Run{nodesRun(1, 400, Done), nodesRun(2, 10, Done)}, want: "2:10",
		},
		{
			name: "behind it one that is let go",
			runs: []Run{nodesRun(1, 400, CutShort), nodesRun(2, 400, Done), nodesRun(3, 10, Done)}, want: "3:10",
		},
		{
			name: "behind it one that is let go, of other nodes",
			runs: []Run{nodesRun(1, 400, CutShort), nodesRun(2, 399, Done), nodesRun(3, 10, Done)}, want: "1:1 short 3:10",
		},
		{
			name: "more than there is room for",
			runs: []Run{
				nodesRun(1, 701, Failed), nodesRun(2, 400, CutShort), nodesRun(3, 400, CutShort), nodesRun(4, 700, Begun),
			},
			want: "1:1 short 3:400 4:700",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // what is read again is written as it was
				data, err := encode(tt.runs)
				if err != nil {
					t.Fatal(err)
				}
				if tt.runs, err = decode(data); err != nil {
					t.Fatal(err)
				}
				if got, size := kept(tt.runs, data); got != tt.want || size > 1_000_000 {
					t.Errorf("%d bytes: %s, want %s", size, got, tt.want)
				}
			}
		})
	}
}

// What was shortened goes once it is repeated, also where there is room again.
func TestEncode_ShortenedAndRepeated(t *testing.T) {
	short := nodesRun(1, 1, CutShort).shortened(nil)
	data, err := encode([]Run{short, nodesRun(2, 1, Done)})
	if err != nil || len(data.text) != 1 || data.text["run-000002.yaml"] == "" {
		t.Errorf("%d runs, %v", len(data.text), err)
	}
}

// A cluster of five thousand machines has room in the journal, and what was packed is read as it was written.
func TestEncode_ManyMachines(t *testing.T) {
	run := Run{ID: 1, Command: "adopt", Holder: "cp1", State: Begun, Began: now()}
	for i := range 10_000 {
		node := fmt.Sprintf("ip-10-1-%d-%d.eu-central-1.compute.internal", i>>8, i&255)
		run.Steps = append(run.Steps, Step{
			Name: "kubelet", Node: node, What: "Set the kubelet to external cloud mode", State: Done, Began: now(),
			Before: "", After: fmt.Sprintf("--cloud-provider=external --node-ip=10.1.%d.%d", i>>8, i&255),
			Undo: "ccmadm node plain on " + node,
		})
	}
	list, err := encode([]Run{run})
	if err != nil {
		t.Fatal(err)
	}
	if size := len(list.packed["run-000001.yaml.gz"]); len(list.text) != 1 || size == 0 || size > maxSize {
		t.Errorf("%d runs as text, and one packed of %d bytes", len(list.text), size)
	}
	if _, err := decode(documents{text: list.text}); err == nil || !strings.Contains(err.Error(), "v1alpha2") {
		t.Errorf("to a ccmadm that does not unpack it is no newer one: %v", err)
	}
	runs, err := decode(list)
	if err != nil {
		t.Fatal(err)
	}
	run.TypeMeta = runs[0].TypeMeta
	if diff := cmp.Diff([]Run{run}, runs, cmpopts.IgnoreFields(Run{}, "Waiting")); diff != "" {
		t.Error(diff)
	}
	whole := list.digest()
	list.packed["run-000001.yaml.gz"][20]++
	if list.digest() == whole {
		t.Error("an edit of what is packed is not seen")
	}
	if runs, err := decode(list); err == nil {
		t.Errorf("%d runs out of what was damaged", len(runs))
	}
}
