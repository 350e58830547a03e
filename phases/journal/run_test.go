package journal

import (
	"fmt"
	"strings"
	"testing"
)

// nodesRun is a run of adopt over so many nodes, which stopped at the last one.
func nodesRun(id, nodes int, state State) Run {
	r := Run{ID: id, Command: "adopt", Holder: fmt.Sprint(id), State: state, Began: now()}
	for i := range nodes {
		r.Steps = append(r.Steps, Step{
			Name: "kubelet", Node: fmt.Sprintf("w%d", i), State: Done, Began: now(), What: strings.Repeat("x", 600),
		})
	}
	if state != Done {
		r.Steps[nodes-1].State = state
	}
	return r
}

// kept is ID and steps of each run, and how many bytes they are.
func kept(runs []Run, data map[string]string) (string, int) {
	var list []string
	size := 0
	for _, r := range runs {
		text := fmt.Sprintf("%d:%d", r.ID, len(r.Steps))
		if r.Shortened {
			text += " short"
		}
		list, size = append(list, text), size+len(data[r.key()])
	}
	return strings.Join(list, " "), size
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
				nodesRun(1, 700, Failed), nodesRun(2, 400, CutShort), nodesRun(3, 400, CutShort), nodesRun(4, 600, Begun),
			},
			want: "1:1 short 3:400 4:600",
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
	if err != nil || len(data) != 1 || data["run-000002.yaml"] == "" {
		t.Errorf("%d runs, %v", len(data), err)
	}
}
