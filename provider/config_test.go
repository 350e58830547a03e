package provider

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReadConfiguration(t *testing.T) {
	const head = "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n"
	kind := metav1.TypeMeta{APIVersion: configAPIVersion, Kind: configKind}
	for _, tt := range []struct {
		name    string
		file    io.Reader
		want    Configuration
		wantErr string
	}{
		{name: "no file", want: Configuration{TypeMeta: kind, Site: "default"}},
		{
			name: "comments only",
			file: strings.NewReader("# nothing to say\n"),
			want: Configuration{TypeMeta: kind, Site: "default"},
		},
		{
			name: "kind only",
			file: strings.NewReader(head),
			want: Configuration{TypeMeta: kind, Site: "default"},
		},
		{
			name: "everything",
			file: strings.NewReader(head + "site: ber1\nregion: ber\nzone: ber-a\ninstanceType: r650.64c\n"),
			want: Configuration{TypeMeta: kind, Site: "ber1", Region: "ber", Zone: "ber-a", InstanceType: "r650.64c"},
		},
		{
			name: "between separators and comments",
			file: strings.NewReader("# ours\n---\n" + head + "zone: ber-a\n---\n# the end\n"),
			want: Configuration{TypeMeta: kind, Site: "default", Zone: "ber-a"},
		},
		{
			name:    "a field that is not there",
			file:    strings.NewReader(head + "sites: ber1\n"),
			wantErr: `unknown field "sites"`,
		},
		{
			name:    "a field in other letters",
			file:    strings.NewReader(head + "Zone: ber-a\n"),
			wantErr: `unknown field "Zone"`,
		},
		{
			name:    "a field twice",
			file:    strings.NewReader(head + "zone: a\nzone: b\n"),
			wantErr: `"zone" already set`,
		},
		{
			name:    "malformed",
			file:    strings.NewReader(head + "zone: [\n"),
			wantErr: "read OnPremConfiguration: yaml: line 3",
		},
		{
			name:    "no kind",
			file:    strings.NewReader("zone: ber-a\n"),
			wantErr: `want apiVersion "ccmadm.dev/v1alpha1" and kind "OnPremConfiguration", got "" and ""`,
		},
		{
			name:    "a later version",
			file:    strings.NewReader("apiVersion: ccmadm.dev/v1\nkind: OnPremConfiguration\n"),
			wantErr: `got "ccmadm.dev/v1" and "OnPremConfiguration"`,
		},
		{
			name:    "a second document",
			file:    strings.NewReader(head + "---\n" + head),
			wantErr: "one document",
		},
		{
			name:    "a site that does not fit into a provider ID",
			file:    strings.NewReader(head + "site: ber/1\n"),
			wantErr: `site: "ber/1"`,
		},
		{
			name:    "a region that is no label value",
			file:    strings.NewReader(head + "region: Frankfurt am Main\n"),
			wantErr: `region: "Frankfurt am Main"`,
		},
		{
			name:    "a zone that is too long for a label",
			file:    strings.NewReader(head + "zone: " + strings.Repeat("z", 64) + "\n"),
			wantErr: "zone: ",
		},
		{
			name:    "an instance type that is no label value",
			file:    strings.NewReader(head + "instanceType: 64/512\n"),
			wantErr: `instanceType: "64/512"`,
		},
		{
			name:    "a file that cannot be read",
			file:    iotest.ErrReader(errors.New("broken disk")),
			wantErr: "read OnPremConfiguration: broken disk",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadConfiguration(tt.file)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("got %+v and error %v, want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
