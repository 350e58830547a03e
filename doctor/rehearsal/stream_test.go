package rehearsal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
)

func aReport() *Report {
	found := finding.WouldBeDeleted.New("Node/b", "the cloud has no such machine")
	return &Report{
		Nodes: []Verdict{
			{Node: "a", Outcome: Recognized, After: &Facts{ProviderID: "x://a", Addresses: []string{"InternalIP:192.0.2.1"}}},
			{Node: "b", Outcome: WouldBeDeleted, Finding: &found, Labels: map[string]string{"k": "v"}},
		},
		Refused: map[string]int{"create services": 2},
	}
}

// streamed is what a rehearsal says.
func streamed(t *testing.T, report *Report, failed error) string {
	t.Helper()
	var stream bytes.Buffer
	s := NewSender(&stream)
	s.Progress("pass 1 of 2")
	if _, err := s.Write([]byte("a line\nhalf")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte(" a line\n")); err != nil {
		t.Fatal(err)
	}
	if err := s.End(report, failed); err != nil {
		t.Fatal(err)
	}
	return stream.String()
}

// What comes out at the other end is what went in: the same table, progress and log.
func TestStream(t *testing.T) {
	var said []string
	var log, got, want bytes.Buffer
	r := Receiver{Progress: func(text string) { said = append(said, text) }, Log: &log}
	report, err := r.Receive(strings.NewReader(streamed(t, aReport(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(report.WriteTable(&got, true), aReport().WriteTable(&want, true)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(said) != 1 || log.String() != "a line\nhalf a line\n" {
		t.Errorf("progress %q, log %q", said, log.String())
	}
}

// A stream that was cut anywhere is no report, and is read to its end when it comes again; nothing is said twice.
func TestStream_Cut(t *testing.T) {
	whole := streamed(t, aReport(), nil)
	for at := range len(whole) - 1 {
		said := 0
		r := Receiver{Progress: func(string) { said++ }}
		if _, err := r.Receive(strings.NewReader(whole[:at])); !errors.Is(err, ErrCut) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		report, err := r.Receive(strings.NewReader(whole))
		if err != nil || len(report.Nodes) != 2 || said != 1 {
			t.Fatalf("cut at %d, then whole: %v, progress said %d times", at, err, said)
		}
	}
}

func TestStream_Errors(t *testing.T) {
	ended := fmt.Errorf("rehearse: %w", finding.RehearsalEnded.Errorf("it ends with exit status 1"))
	for _, tc := range []struct {
		name, stream, want string
		id                 finding.ID
	}{
		{"of a kind", streamed(t, nil, ended), "rehearse: it ends with exit status 1", finding.RehearsalEnded},
		{"of none", streamed(t, nil, errors.New("list nodes: forbidden")), "list nodes: forbidden", ""},
		{"a node is missing", `{"end":{"nodes":2}}`, "0 Nodes of 2", ""},
		{"something else talks", "ccmadm: error: unknown command\n", "its last line: ccmadm: error: unknown command", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := (&Receiver{}).Receive(strings.NewReader(tc.stream))
			var found *finding.Finding
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.As(err, &found) != (tc.id != "") {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
			if tc.id != "" && (found.ID != tc.id || found.Do == "") {
				t.Errorf("got %+v", found)
			}
		})
	}
}
