package provider

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestReadConfiguration_GCFG(t *testing.T) {
	kind := metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.OnPremKind}
	withSource := v1alpha1.InventorySource{URL: "https://198.18.0.1/m#1", CAFile: "/ca.crt"}
	withSource.Default()
	for _, tt := range []struct {
		name, file string
		want       v1alpha1.OnPremConfiguration
		wantErr    []string
	}{
		{
			name: "everything",
			file: "# ours\n; and theirs\n\n[Global]\nSite = ber1 ; a comment\nregion=ber\nzone = \"ber-a\" # " +
				"another\ninstance-type = generic\n",
			want: v1alpha1.OnPremConfiguration{
				TypeMeta: kind, Site: "ber1", Region: "ber", Zone: "ber-a",
				InstanceType: "generic",
			},
		},
		{
			name: "an inventory",
			file: "[inventory]\nurl = \"https://198.18.0.1/m#1\"\nca-file = /ca.crt\n",
			want: v1alpha1.OnPremConfiguration{TypeMeta: kind, Inventory: &withSource},
		},
		{name: "a section only", file: "[Global]\n", want: v1alpha1.OnPremConfiguration{TypeMeta: kind, Site: "default"}},
		{
			name:    "everything that is wrong, at once",
			file:    "[Global]\nsites = a\nzone\nregion = a\nregion = b\n[Load]\nsite = \"a\ninstance-type = a\\\\b\n",
			wantErr: []string{`line 2: unknown setting "global.sites"`, `line 3: want NAME = VALUE`, `line 5: "global.region" is set already`, "line 7: site: want one value", "line 8: instance-type: put the value"},
		},
		{
			name:    "a source that is none",
			file:    "[Inventory]\n",
			wantErr: []string{"want exactly one of file, configMap and url"},
		},
		{name: "a value that is none", file: "[Global]\nsite = a/b\n", wantErr: []string{`site: Invalid value: "a/b"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadConfiguration(strings.NewReader(tt.file))
			if (err != nil) != (len(tt.wantErr) > 0) {
				t.Fatalf("got %+v and error %v", got, err)
			}
			for _, want := range tt.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error without %q: %v", want, err)
				}
			}
			if err == nil {
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// Whatever is accepted, in either syntax, is the same after it was written as YAML.
func FuzzReadConfiguration(f *testing.F) {
	for _, seed := range []string{
		"", "[Global]\nsite = ber1\ninstance-type = \"a;b\" ; why\n[Inventory]\nfile = /x\n", "# later\n",
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
