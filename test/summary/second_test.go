package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All runs count together: two of one and one of another are too many.
func TestSecond(t *testing.T) {
	tests := []struct {
		name    string
		files   []string
		want    string
		wantErr string
	}{
		{name: "every test passed at once", files: []string{"", ""}, want: "tests that passed only the second time: 0\n"},
		{
			name:  "two, of two runs",
			files: []string{"1.36 ^(TestA)$\n", "", "1.34 ^(TestA)$\n"},
			want:  "tests that passed only the second time: 2\n  TestA on Kubernetes 1.36\n  TestA on Kubernetes 1.34\n",
		},
		{
			name:  "three, of two runs",
			files: []string{"1.36 ^(TestA|TestB)$\n", "1.35 ^(TestC)$\n"},
			want: "tests that passed only the second time: 3\n" +
				"  TestA on Kubernetes 1.36\n  TestB on Kubernetes 1.36\n  TestC on Kubernetes 1.35\n",
			wantErr: "3 tests passed only the second time, more than 2",
		},
		{name: "a run that did not take place", files: []string{"", "-"}, wantErr: "read what was run twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var files []string
			for i, text := range tt.files {
				file := filepath.Join(dir, string(rune('a'+i)))
				files = append(files, file)
				if text == "-" {
					continue
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			err := second(&out, files)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
			if out.String() != tt.want {
				t.Errorf("got %q, want %q", out.String(), tt.want)
			}
		})
	}
}
