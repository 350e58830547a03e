package nodes

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func changes() []Status {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return []Status{
		{Time: at, Node: "w1", State: Absent},
		{Time: at, Node: "cp1", State: Tainted},
		{Time: at, Node: "w1", State: Ready, ProviderID: "onprem://default/w1", InternalIPs: []string{"198.18.0.12", "fd00::12"}},
		{Time: at, Node: "cp1", State: Tainted, Cause: &Cause{Reason: "NoPod", Message: "no pod", Next: "look"}},
	}
}

func show(r Renderer) {
	for _, s := range changes() {
		r.Show(s)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	show(table)
	want := "w1 Absent\ncp1 Tainted\nw1 Ready onprem://default/w1 198.18.0.12,fd00::12\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if err := table.Close(); err != nil {
		t.Error(err)
	}
}

func TestTable_Live(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	table.live = true
	show(table)
	frames := strings.Split(out.String(), "\x1b[?7l")[1:]
	if len(frames) != 3 {
		t.Fatalf("got %d frames, want one per change:\n%q", len(frames), out.String())
	}
	want := "\x1b[3A\x1b[J" +
		"NODE  STATE        PROVIDER-ID          INTERNAL-IP\n" +
		"cp1   Tainted      -                    -\n" +
		"w1    Ready        onprem://default/w1  198.18.0.12,fd00::12\n\x1b[?7h"
	if diff := cmp.Diff(want, frames[2]); diff != "" {
		t.Errorf("last frame (-want +got):\n%s", diff)
	}
}

func TestJSONLines(t *testing.T) {
	var out bytes.Buffer
	lines := NewJSONLines(&out)
	show(lines)
	want := `{"time":"2026-11-21T10:00:00Z","node":"w1","state":"Absent"}
{"time":"2026-11-21T10:00:00Z","node":"cp1","state":"Tainted"}
{"time":"2026-11-21T10:00:00Z","node":"w1","state":"Ready","providerID":"onprem://default/w1","internalIPs":["198.18.0.12","fd00::12"]}
{"time":"2026-11-21T10:00:00Z","node":"cp1","state":"Tainted","cause":{"reason":"NoPod","message":"no pod","next":"look"}}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if err := lines.Close(); err != nil {
		t.Error(err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestRenderers_TellOfWriteErrors(t *testing.T) {
	for name, r := range map[string]Renderer{"table": NewTable(brokenPipe{}), "json": NewJSONLines(brokenPipe{})} {
		t.Run(name, func(t *testing.T) {
			show(r)
			if err := r.Close(); err == nil || err.Error() != "show nodes: broken pipe" {
				t.Errorf("got error %v", err)
			}
		})
	}
}
