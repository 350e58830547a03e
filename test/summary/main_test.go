package main

import (
	"io"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	const (
		slow = `{"Action":"pass","Package":"p","Test":"TestSlow","Elapsed":20.5}` + "\n"
		says = `{"Action":"output","Package":"p","Test":"TestA","Output":"hello\n"}` + "\n"
		a    = `{"Action":"pass","Test":"TestA","Elapsed":1}` + "\n"
		b    = `{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}` + "\n"
		p    = `{"Action":"fail","Package":"p","Elapsed":1}`
	)
	tests := []struct {
		name, in, want, wantErr string
	}{
		{
			name: "the slowest come first, and output is shown",
			in:   says + a + slow,
			want: "hello\n\nthe slowest of 2 tests:\n    20.5 s  TestSlow\n     1.0 s  TestA\n",
		},
		{
			name: "a part counts with its test",
			in:   `{"Action":"pass","Package":"p","Test":"TestSlow/part","Elapsed":20}` + "\n" + slow,
			want: "\nthe slowest of 1 tests:\n    20.5 s  TestSlow\n",
		},
		{
			name:    "a test that fails",
			in:      slow + b + p,
			wantErr: "2 failures",
		},
		{
			name:    "a test that leaves itself out, with its reason",
			in:      slow + said("    b_test.go:12: no route here") + `{"Action":"skip","Test":"TestB"}` + "\n",
			want:    "\nTestB failed:\n    b_test.go:12: no route here\n",
			wantErr: "1 failures",
		},
		{
			name: "what a test that fails has said, but not what explains it",
			in: `{"Action":"output","Test":"TestB","Output":"    b_test.go:12: left: pod/x\n"}` + "\n" +
				`{"Action":"output","Test":"TestB","Output":"    b_test.go:99: $ kubectl get pods\n"}` + "\n" +
				`{"Action":"output","Test":"TestB","Output":"        a thousand lines\n"}` + "\n" + b,
			want:    "\nTestB failed:\n    b_test.go:12: left: pod/x\n",
			wantErr: "1 failures",
		},
		{
			name: "of a command that failed the end of its output, where the error is",
			in: said("    b_test.go:12: cp1: ccmadm init: exit status 1") + strings.Repeat(said("        [preflight] well"), 30) +
				said("        ccmadm: error: ask for Lease/a") + said("    b_test.go:99: $ kubectl get pods") + said("        a thousand lines") + b,
			want: "\nTestB failed:\n    b_test.go:12: cp1: ccmadm init: exit status 1\n" + strings.Repeat("        [preflight] well\n", 11) +
				"        ccmadm: error: ask for Lease/a\n",
			wantErr: "1 failures",
		},
		{
			name:    "a package that fails before its tests",
			in:      slow + p,
			wantErr: "1 failures",
		},
		{
			name:    "a name that nobody has",
			in:      `{"Action":"pass","Package":"p","Elapsed":0.1}`,
			wantErr: "no test matches",
		},
		{
			name:    "nothing at all",
			wantErr: "no test matches",
		},
		{
			name: "words of the go command itself",
			in:   "go: downloading x\n" + slow,
			want: "go: downloading x\n\nthe slowest of 1 tests:\n    20.5 s  TestSlow\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			_, err := summarize(strings.NewReader(tt.in), &out)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got error %v, want %q", err, tt.wantErr)
				}
				if !strings.HasSuffix(out.String(), tt.want) {
					t.Errorf("got %q, want %q at its end", out.String(), tt.want)
				}
				return
			}
			if err != nil || out.String() != tt.want {
				t.Errorf("got %q, %v, want %q", out.String(), err, tt.want)
			}
		})
	}
}

// said is a line of TestB's output.
func said(line string) string {
	return `{"Action":"output","Test":"TestB","Output":"` + line + `\n"}` + "\n"
}

// Another try is for one or two tests that came to their end: what fails more, or ends a process, is no chance.
func TestAgain(t *testing.T) {
	const (
		part  = `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail","Test":"TestA/part"}` + "\n"
		a     = part + `{"Action":"fail","Test":"TestA"}` + "\n"
		b     = `{"Action":"fail","Test":"TestB"}` + "\n"
		c     = `{"Action":"fail","Test":"TestC"}` + "\n"
		begun = `{"Action":"run","Test":"TestD"}` + "\n"
		good  = `{"Action":"pass","Test":"TestE"}` + "\n"
		whole = `{"Action":"fail","Package":"p"}` + "\n"
	)
	tests := []struct{ name, in, want string }{
		{"nothing failed", good, ""},
		{"one", good + a + whole, "^(TestA)$"},
		{"two", a + good + b + whole, "^(TestA|TestB)$"},
		{"three are no chance", a + b + c + whole, ""},
		{"one never ended", begun + a + whole, ""},
		{"one left itself out", begun + `{"Action":"skip","Test":"TestD"}` + "\n" + a + whole, ""},
		{"a package has no tests", `{"Action":"skip","Package":"q"}` + "\n" + a + whole, "^(TestA)$"},
		{"a package without a test", whole, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := summarize(strings.NewReader(tt.in), io.Discard)
			if got := r.again(); got != tt.want {
				t.Errorf("again() = %q, want %q", got, tt.want)
			}
		})
	}
}
