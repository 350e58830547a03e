package finding

import (
	"bytes"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCatalogue(t *testing.T) {
	form := regexp.MustCompile(`^[A-Z][0-9]+$`)
	word := regexp.MustCompile(`^([A-Z][A-Za-z]+)?$`)
	seen := map[string]bool{}
	for _, k := range Catalogue() {
		if !form.MatchString(string(k.ID)) || !word.MatchString(k.Reason) {
			t.Errorf("%s %s: the ID is a letter and a number, the reason a word", k.ID, k.Reason)
		}
		if k.Title == "" || k.Why == "" || k.Do == "" || !slices.Contains([]Severity{SeverityError, SeverityWarning, SeverityNote}, k.Severity) {
			t.Errorf("%s says too little", k.ID)
		}
		for _, name := range []string{string(k.ID), k.Reason} {
			if seen[name] && name != "" {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
	}
}

func TestLookup(t *testing.T) {
	tests := []struct {
		name string
		give string
		want ID
	}{
		{"by ID, in any case", "w2", NeverTainted},
		{"by reason", "nevertainted", NeverTainted},
		{"an empty name is no reason", "", ""},
		{"what is not there", "X99", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Lookup(tt.give)
			if got.ID != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got.ID, ok, tt.want)
			}
		})
	}
}

func TestID_Errorf(t *testing.T) {
	var err error = UnknownMachine.Errorf("find the machine of Node/w1: %w", fs.ErrNotExist)
	var f *Finding
	if !errors.As(err, &f) || f.Reason != "UnknownMachine" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %#v", err)
	}
	if want := "find the machine of Node/w1: file does not exist"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestWriteText(t *testing.T) {
	inFile := ID("B2").New("DaemonSet/ccm", "nothing tolerates it")
	inFile.File, inFile.Line, inFile.Column, inFile.Fix = "a.yaml", 9, 7, func() error { return nil }
	inCluster := NoPod.New("Node/w1", "no \x1b[31mpod\x1b[0m")
	inCluster.Next = "look"
	var out bytes.Buffer
	if err := WriteText(&out, []Finding{inFile, inCluster}); err != nil {
		t.Fatal(err)
	}
	want := "a.yaml:9:7: error B2: DaemonSet/ccm: nothing tolerates it\n" +
		"\tdo: tolerate the taint by its key, with operator Exists (--fix does it)\n" +
		"error W20: Node/w1: no pod\n" +
		"\tdo: install a cloud-controller-manager, or find out why the kubelet does not run its static pod\n" +
		"\tnext: look\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestClean(t *testing.T) {
	tests := []struct {
		name, give, want string
	}{
		{"plain text stays", "onprem://ber1/r1 (zone a)", "onprem://ber1/r1 (zone a)"},
		{"other languages stay", "Zürich 東京", "Zürich 東京"},
		{"colours go", "\x1b[1;31merror\x1b[0m", "error"},
		{"the cursor stays where it is", "a\x1b[2J\x1b[Hb\x1b7c", "abc"},
		{"a title goes", "a\x1b]0;owned\ab\x1b]8;;https://x\x1b\\c", "abc"},
		{"a title without an end takes the rest", "a\x1b]0;owned", "a"},
		{"sequences of one character", "a\u009b31mb\u009d0;x\u009cc", "abc"},
		{"carriage return and line ends", "good\rbad\nworse\tworst", "good bad worse worst"},
		{"line ends of Unicode", "a\u2028b\u2029c\u0085d", "a b cd"},
		{"direction", "a\u202egnp.exe", "agnp.exe"},
		{"what is not UTF-8", "a\xffb", "a\ufffdb"},
		{"half an escape sequence", "a\x1b", "a"},
		{"bell, backspace and delete", "a\a\b\x7fb", "ab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.give); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Of all that is ahead, the version stands in the catalogue alone.
func TestID_Ahead(t *testing.T) {
	for _, tt := range []struct {
		id    ID
		minor int
		want  Severity
	}{
		{RuntimeEnds, 0, SeverityNote},
		{RuntimeEnds, 37, SeverityNote},
		{RuntimeEnds, 38, SeverityError},
		{ProxyModeEnds, 39, SeverityNote},
		{ProxyModeEnds, 40, SeverityWarning},
		{ExternalIPs, 41, SeverityWarning},
		{ProxyModeDefault, 41, SeverityNote},
		{MeansElse, 41, SeverityNote}, // without a version there is nothing ahead
	} {
		f := tt.id.Ahead(tt.minor, "Node/w1", "seen")
		if f.Severity != tt.want || f.Since != "" && f.Message != "seen; Kubernetes "+f.Since+" ends that" {
			t.Errorf("%s for 1.%d: got %s %q, want %s", tt.id, tt.minor, f.Severity, f.Message, tt.want)
		}
	}
	list := []Finding{{Kind: Kind{Severity: SeverityNote}}, {Kind: Kind{Severity: SeverityWarning}}, {Kind: Kind{Severity: SeverityError}}}
	Sort(list)
	if list[0].Severity != SeverityError || list[2].Severity != SeverityNote {
		t.Errorf("sorted: %v", list)
	}
}
