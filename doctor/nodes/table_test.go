package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"github.com/ccmadm/ccmadm/api/finding"
)

func changes() []Status {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return []Status{
		{Time: at, Node: "w1", State: Absent},
		{Time: at, Node: "cp1", State: Tainted},
		{
			Time:        at,
			Node:        "w1",
			State:       Ready,
			ProviderID:  "onprem://default/w1",
			InternalIPs: []string{"198.18.0.12", "fd00::12"},
		},
		{Time: at, Node: "cp1", State: Tainted, Cause: &finding.Finding{Message: "no pod", Next: "look"}},
	}
}

func show(d Display) {
	for _, s := range changes() {
		d.Show(s)
	}
}

// Off a terminal: a header, columns that start where its words do, and no holes.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, false)
	show(table)
	want := "" +
		"NODE                      STATE        PROVIDER-ID                               INTERNAL-IP\n" +
		"w1                        Absent       -                                         -\n" +
		"cp1                       Tainted      -                                         -\n" +
		"w1                        Ready        onprem://default/w1                       198.18.0.12,fd00::12\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if err := table.Close(); err != nil {
		t.Error(err)
	}
}

// A cell that is wider than its column comes below a header of its own, and later rows keep its width.
func TestTable_WideCells(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, false)
	id := "onprem://default/967eb7bf-4ecd-463d-8be7-0ad36fa32693"
	for _, s := range []Status{
		{Node: "w1", State: Tainted},
		{Node: "w1", State: Addressed, ProviderID: id, InternalIPs: []string{"198.18.0.12"}},
		{Node: "w2", State: Addressed, ProviderID: "onprem://default/w2", InternalIPs: []string{"198.18.0.13"}},
	} {
		table.Show(s)
	}
	header, rows := 0, 0
	at := -1
	for line := range strings.Lines(out.String()) {
		if place := strings.Index(line, "INTERNAL-IP"); place >= 0 {
			at = place
			header++
			continue
		}
		rows++
		if address := strings.Index(line, "198.18."); address >= 0 && address != at {
			t.Errorf("the address is at %d, its header at %d:\n%s", address, at, out.String())
		}
	}
	if header != 2 || rows != 3 {
		t.Errorf("%d headers and %d rows, want 2 and 3:\n%s", header, rows, out.String())
	}
}

// Once, all rows are known before the first is shown.
func TestNewList(t *testing.T) {
	var out bytes.Buffer
	list := NewList(&out, true)
	rows := changes()
	rows[2].Zone, rows[2].Version = "ber-a", "v1.36.3"
	list.Show(rows[1])
	list.Show(rows[2])
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"NODE  STATE        PROVIDER-ID          INTERNAL-IP           ZONE   VERSION\n" +
		"cp1   Tainted      -                    -                     -      -\n" +
		"w1    Ready        onprem://default/w1  198.18.0.12,fd00::12  ber-a  v1.36.3\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestTable_Live(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, false)
	table.size = func() (width, height int) { return 80, 24 }
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

// The time that is left stands below the rows, and goes with the end of the wait.
func TestTable_Left(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, false)
	table.size = func() (width, height int) { return 80, 24 }
	show(table)
	table.Left(299 * time.Second)
	table.Left(298 * time.Second)
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	frames := strings.Split(out.String(), "\x1b[?7l")[1:]
	for i, want := range map[int]string{3: "\x1b[3A\x1b[J", 4: "\x1b[4A\x1b[J", 5: "\x1b[4A\x1b[J"} { // up by what is drawn
		if len(frames) != 6 || !strings.HasPrefix(frames[i], want) {
			t.Fatalf("%d frames, and frame %d is not over the last one:\n%q", len(frames), i, out.String())
		}
	}
	if !strings.Contains(frames[4], "\nwaiting, 4m58s left\n") || strings.Contains(frames[5], "waiting") {
		t.Errorf("got %q", frames[4:])
	}
}

// Off a terminal it has a line of its own, twice a minute.
func TestTable_LeftOffATerminal(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, false)
	for left := 300; left > 200; left-- {
		table.Left(time.Duration(left) * time.Second)
	}
	if got, want := out.String(), "waiting, 4m30s left\nwaiting, 4m0s left\nwaiting, 3m30s left\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// More rows than the screen has lines are written one below the other.
func TestTable_HigherThanTheScreen(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, false)
	table.size = func() (width, height int) { return 80, 3 }
	show(table)
	if got := strings.Count(out.String(), "\x1b[J"); got != 0 {
		t.Errorf("redrawn %d times, though what is drawn leaves the screen:\n%q", got, out.String())
	}
	if !strings.HasSuffix(out.String(), "198.18.0.12,fd00::12\n") {
		t.Errorf("the last change is not the last line:\n%s", out.String())
	}
}

// An address on the screen is a node's address, whole, in the row of that node, however narrow the screen is.
func TestLayout(t *testing.T) {
	var rows []Status
	for i := range 12 {
		rows = append(rows, Status{
			Node: fmt.Sprintf("cp-%d.rack7.ber1.example.com", i), State: Initialized,
			ProviderID:  fmt.Sprintf("onprem://ber1/a-machine-with-quite-a-name-%d", i),
			InternalIPs: []string{fmt.Sprintf("198.19.188.%d", 100+i)}, Zone: "ber1-a", Version: "v1.36.3",
		})
	}
	tests := []struct {
		width  int
		wide   bool
		header string
	}{
		{20, false, "NODE, STATE"},
		{40, false, "NODE, STATE"},
		{60, false, "NODE STATE INTERNAL-IP"},
		{80, false, "NODE STATE INTERNAL-IP"},
		{80, true, "NODE STATE INTERNAL-IP ZONE VERSION"},
		{120, false, "NODE STATE PROVIDER-ID INTERNAL-IP"},
		{200, true, "NODE STATE PROVIDER-ID INTERNAL-IP ZONE VERSION"},
		{0, true, "NODE STATE PROVIDER-ID INTERNAL-IP ZONE VERSION"},
	}
	address := regexp.MustCompile(`198[0-9.]*`)
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d columns, wide %v", tt.width, tt.wide), func(t *testing.T) {
			lines := layout(columns(tt.wide), rows, tt.width)
			if got := strings.Join(strings.Fields(lines[0]), " "); got != tt.header {
				t.Errorf("got header %q, want %q", got, tt.header)
			}
			for _, line := range lines {
				if width := runewidth.StringWidth(line); tt.width > 0 && width > tt.width {
					t.Errorf("%d columns wide: %q", width, line)
				}
				if found := address.FindString(line); found != "" {
					number := strings.TrimPrefix(found, "198.19.188.1")
					if want := "cp-" + strings.TrimPrefix(number, "0") + "."; !strings.HasPrefix(line, want) {
						t.Errorf("%s is not in the row of %s: %q", found, want, line)
					}
				}
			}
		})
	}
}

// A narrow screen shows all of a name and of a state, on lines of their own.
func TestLayout_Stacked(t *testing.T) {
	got := layout(columns(false), []Status{{Node: "a-name-that-is-rather-long.example.com", State: Tainted}}, 24)
	want := []string{"NODE, STATE", "a-name-that-is-rather-lo", "ng.example.com", "  Tainted"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestJSONLines(t *testing.T) {
	var out bytes.Buffer
	lines := NewJSONLines(&out)
	cause := finding.Finding{Kind: finding.Kind{ID: "W20", Reason: "NoPod"}, Message: "no pod", Next: "look"}
	for _, s := range changes()[:3] {
		lines.Show(s)
	}
	last := changes()[3]
	last.Cause = &cause
	lines.Show(last)
	lines.Tell(cause)
	want := `{"time":"2026-11-21T10:00:00Z","node":"w1","state":"Absent"}
{"time":"2026-11-21T10:00:00Z","node":"cp1","state":"Tainted"}
{"time":"2026-11-21T10:00:00Z","node":"w1","state":"Ready","providerID":"onprem://default/w1","internalIPs":["198.18.0.12","fd00::12"]}
{"time":"2026-11-21T10:00:00Z","node":"cp1","state":"Tainted","cause":{"id":"W20","reason":"NoPod","message":"no pod","next":"look"}}
{"finding":{"id":"W20","reason":"NoPod","message":"no pod","next":"look"}}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if err := lines.Close(); err != nil {
		t.Error(err)
	}
}

func TestYAML(t *testing.T) {
	var out bytes.Buffer
	NewYAML(&out).Show(changes()[0])
	want := "---\nnode: w1\nstate: Absent\ntime: \"2026-11-21T10:00:00Z\"\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestDisplays_TellOfWriteErrors(t *testing.T) {
	list := NewList(brokenPipe{}, false)
	for want, d := range map[string]Display{
		"show nodes: broken pipe": list, "show nodes: broken pipe ": NewTable(brokenPipe{}, false), "write objects: broken pipe": NewJSONLines(brokenPipe{}),
	} {
		t.Run(want, func(t *testing.T) {
			show(d)
			if err := d.Close(); err == nil || err.Error() != strings.TrimSpace(want) {
				t.Errorf("got error %v", err)
			}
		})
	}
}
