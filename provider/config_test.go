package provider

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func seconds(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Second}
}

func TestReadConfiguration(t *testing.T) {
	const head = "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n"
	kind := metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: config.OnPremKind}
	for _, tt := range []struct {
		name    string
		file    io.Reader
		want    config.OnPremConfiguration
		wantErr string
	}{
		{name: "no file", want: config.OnPremConfiguration{TypeMeta: kind, Site: "default"}},
		{
			name: "comments only",
			file: strings.NewReader("# nothing to say\n"),
			want: config.OnPremConfiguration{TypeMeta: kind, Site: "default"},
		},
		{
			name: "kind only",
			file: strings.NewReader(head),
			want: config.OnPremConfiguration{TypeMeta: kind, Site: "default"},
		},
		{
			name: "everything",
			file: strings.NewReader(head + "site: ber1\nregion: ber\nzone: ber-a\ninstanceType: r650.64c\n"),
			want: config.OnPremConfiguration{
				TypeMeta: kind, Site: "ber1", Region: "ber", Zone: "ber-a",
				InstanceType: "r650.64c",
			},
		},
		{
			name: "between separators and comments",
			file: strings.NewReader("# ours\n---\n" + head + "zone: ber-a\n---\n# the end\n"),
			want: config.OnPremConfiguration{TypeMeta: kind, Site: "default", Zone: "ber-a"},
		},
		{
			name: "an inventory",
			file: strings.NewReader(head + "inventory: {url: https://198.18.0.1/machines, silence: 2m, dryRun: true}\n"),
			want: config.OnPremConfiguration{TypeMeta: kind, Inventory: &config.InventorySource{
				URL: "https://198.18.0.1/machines", Timeout: seconds(10), Interval: seconds(30), MaxLossPercent: 20,
				MaxAge: seconds(600), Silence: seconds(120), DeletionDelay: seconds(300), DryRun: true,
			}},
		},
		{
			name:    "no source",
			file:    strings.NewReader(head + "inventory: {}\n"),
			wantErr: "inventory: Invalid value: 0: want exactly one of file, configMap and url",
		},
		{
			name:    "two sources",
			file:    strings.NewReader(head + "inventory: {file: a, configMap: b}\n"),
			wantErr: "inventory: Invalid value: 2: want exactly one",
		},
		{
			name:    "a server that nobody vouches for",
			file:    strings.NewReader(head + "inventory: {url: 'http://198.18.0.1/'}\n"),
			wantErr: "inventory.url: Invalid value",
		},
		{
			name:    "a kubelet that restarts would count as silent",
			file:    strings.NewReader(head + "inventory: {file: a, silence: 59s, maxLossPercent: 101}\n"),
			wantErr: "inventory.silence: Invalid value: \"59s\": must be 1m0s at least",
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
			wantErr: "read OnPremConfiguration: line 3: yaml: line 3",
		},
		{
			name: "the git-config format of other providers' files",
			file: strings.NewReader("# ours\n; and theirs\n\n[Global]\nsite = ber1\n"),
			wantErr: "read OnPremConfiguration: line 4: [Global] begins a section of the git-config format, and only YAML is read: " +
				"write \"site: ber1\" instead of \"site = ber1\"; `ccmadm config schema OnPremConfiguration` has all fields",
		},
		{
			name:    "no kind",
			file:    strings.NewReader("zone: ber-a\n"),
			wantErr: `kind: Unsupported value: "": supported values: "OnPremConfiguration"`,
		},
		{
			name:    "a later version",
			file:    strings.NewReader("apiVersion: ccmadm.dev/v1\nkind: OnPremConfiguration\n"),
			wantErr: `read OnPremConfiguration: line 1: apiVersion: Unsupported value: "ccmadm.dev/v1"`,
		},
		{
			name:    "a second document",
			file:    strings.NewReader(head + "---\n" + head),
			wantErr: "one document",
		},
		{
			name:    "a site that does not fit into a provider ID",
			file:    strings.NewReader(head + "site: ber/1\n"),
			wantErr: `site: Invalid value: "ber/1"`,
		},
		{
			name:    "a region that is no label value",
			file:    strings.NewReader(head + "region: Frankfurt am Main\n"),
			wantErr: `region: Invalid value: "Frankfurt am Main"`,
		},
		{
			name:    "a zone that is too long for a label",
			file:    strings.NewReader(head + "zone: " + strings.Repeat("z", 64) + "\n"),
			wantErr: "zone: ",
		},
		{
			name:    "an instance type that is no label value",
			file:    strings.NewReader(head + "instanceType: 64/512\n"),
			wantErr: `instanceType: Invalid value: "64/512"`,
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

// Whatever is accepted is the same after it was written as YAML.
func FuzzReadConfiguration(f *testing.F) {
	for _, seed := range []string{
		"", "[Global]\nsite = ber1\n", "# later\n",
		"apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\nzone: a\ninventory: {url: \"https://x/y\", timeout: " +
			"3s}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ReadConfiguration(bytes.NewReader(data))
		if err != nil {
			return
		}
		text, err := yaml.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadConfiguration(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}
