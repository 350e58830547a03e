package manifests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// One golden file for each provider: all that is rendered for it, in every mode. A new profile needs
//
//	go test ./manifests -run TestCatalogue -update
//
// and a look at the file.
func TestCatalogue(t *testing.T) {
	for _, name := range templates.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := templates.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, mode := range p.Modes {
				fmt.Fprintf(&got, "# mode %s\n", mode)
				renderAll(t, &got, p, manifeststest.Values(p, mode, "v1.36.0", true))
			}
			file := filepath.Join("testdata", "catalogue", name+".yaml")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
			keepsPreset(t, p)
		})
	}
}

func renderAll(t *testing.T, out *bytes.Buffer, p *templates.Profile, v templates.Values) {
	t.Helper()
	objects, err := RBAC(p, v)
	if err != nil {
		t.Fatal(err)
	}
	workload, err := Addon(p, v)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(objects, workload...) {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "---\n%s", data)
	}
	if v.Mode == templates.StaticPod {
		data, err := StaticPod(p, v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "---\n%s", data)
	}
}

// keepsPreset makes sure that no profile undoes what vendors forget and all get.
func keepsPreset(t *testing.T, p *templates.Profile) {
	t.Helper()
	for _, mode := range p.Modes {
		template, err := podTemplate(p, manifeststest.Values(p, mode, "v1.36.0", false))
		if err != nil {
			t.Fatal(err)
		}
		spec := template.Spec
		if !spec.HostNetwork || spec.DNSPolicy != "Default" || spec.PriorityClassName == "" {
			t.Errorf("%s: hostNetwork %t, dnsPolicy %s, priority %q",
				mode, spec.HostNetwork, spec.DNSPolicy, spec.PriorityClassName)
		}
		args := strings.Join(spec.Containers[0].Args, " ")
		for _, want := range []string{"--configure-cloud-routes=false", "--cluster-name=ber1"} {
			if !p.OwnFlags && !strings.Contains(args, want) {
				t.Errorf("%s: without %s it is left to chance: %s", mode, want, args)
			}
		}
	}
}
