package phases

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"

	"github.com/google/go-cmp/cmp"
)

// What the first check says, later ones need not say again; unless the user ignores the first.
func TestRunChecks(t *testing.T) {
	fails := func(text string) func(context.Context, *Data) error {
		return func(context.Context, *Data) error { return finding.Usagef("%s", text).WithHint("fix it") }
	}
	checks := []Check{
		{"Provider", fails("no provider")},
		{"NodeName", fails("no provider")},
		{"Writable", fails("the disk is full")},
		{"KubeletFlags", func(context.Context, *Data) error { return nil }},
	}
	tests := []struct {
		name   string
		ignore []string
		want   string
	}{
		{"all", nil, "preflight: Provider: no provider\nWritable: the disk is full"},
		{"one ignored", []string{"provider"}, "preflight: NodeName: no provider\nWritable: the disk is full"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := runChecks(t.Context(), &Data{Options: Options{IgnorePreflightErrors: tt.ignore}, Streams: Streams{Out: &out}}, checks)
			var known *finding.Error
			if !errors.As(err, &known) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			const hint = "fix it\nnothing was changed; --ignore-preflight-errors=NAME makes a check a warning"
			if diff := cmp.Diff(hint, known.Hint); diff != "" {
				t.Errorf("hint (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDetect_WithoutFirmware(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	_, err := Detect(dir)
	if want := "detect the provider: this machine has no DMI data in " + dir + ", which fits no profile"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}
