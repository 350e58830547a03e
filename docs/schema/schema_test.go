package schema_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/docs/schema"
	"github.com/ccmadm/ccmadm/templates"
)

// readers are what ccmadm itself says of a document.
var readers = map[string]func(data []byte) error{
	config.ConfigKind: func(data []byte) error {
		_, err := config.DecodeCloudConfiguration("doc.yaml", 1, data)
		return err
	},
	config.OnPremKind: func(data []byte) error {
		_, err := config.DecodeOnPremConfiguration("doc.yaml", data)
		return err
	},
	config.InventoryKind: func(data []byte) error {
		_, err := config.DecodeInventory("doc.yaml", data)
		return err
	},
	state.RecordKind: func(data []byte) error {
		_, err := state.DecodeRecord("doc.yaml", data)
		return err
	},
	templates.Kind: func(data []byte) error {
		_, err := templates.Parse("doc.yaml", data)
		return err
	},
}

// validate is what an editor says of a document.
func validate(t *testing.T, kind string, document []byte) error {
	t.Helper()
	text, err := schema.Of(kind)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(kind, parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(kind)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(document)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(value)
}

const (
	version = "apiVersion: ccmadm.dev/v1alpha1\n"
	cloud   = version + "kind: CloudConfiguration\n"
	onprem  = version + "kind: OnPremConfiguration\n"
	list    = version + "kind: Inventory\nmetadata: {site: a}\n"
)

// Editor and ccmadm agree on what is right.
func TestSchema(t *testing.T) {
	for _, tc := range []struct {
		name     string
		kind     string
		document string
	}{
		{
			name:     "nothing set",
			kind:     config.ConfigKind,
			document: cloud,
		},
		{
			name: "everything set",
			kind: config.ConfigKind,
			document: cloud + `provider: hetzner
clusterName: ber1-prod
mode: DaemonSet
controllerManager: {version: v1.2.3, extraArgs: [--v=2], extraEnv: [REGION=eu]}
cloudConfig: {file: cloud.conf}
credentials: [{key: token, env: HCLOUD_TOKEN}, {key: ca.pem, file: ca.pem}]
nodeIP: 10.0.0.1,fd00::1
routes: false
lifecycle: "Off"
wait: {timeout: 1m30s}
`,
		},
		{
			name:     "a node IP of a network",
			kind:     config.ConfigKind,
			document: cloud + "nodeIP: 10.0.0.0/8\n",
		},
		{
			name:     "an inventory in a ConfigMap",
			kind:     config.OnPremKind,
			document: onprem + "zone: a\ninventory: {configMap: ccmadm-machines, silence: 2m}\n",
		},
		{
			name:     "machines",
			kind:     config.InventoryKind,
			document: readFile(t, "../../provider/inventory/testdata/full.yaml"),
		},
		{
			name:     "a record",
			kind:     state.RecordKind,
			document: version + "kind: Record\nconfiguration: {kind: CloudConfiguration, mode: Auto}\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := validate(t, tc.kind, []byte(tc.document)); err != nil {
				t.Errorf("the schema: %v", err)
			}
			if err := readers[tc.kind]([]byte(tc.document)); err != nil {
				t.Errorf("ccmadm: %v", err)
			}
		})
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Editor and ccmadm agree on what is wrong, too.
func TestSchema_BadInput(t *testing.T) {
	for _, tc := range []struct {
		name     string
		kind     string
		document string
		wantErr  string
	}{
		{name: "an unknown field", document: cloud + "routs: true\n", wantErr: "additional properties 'routs' not allowed"},
		{name: "an unknown field further in", document: cloud + "wait: {timout: 5m}\n", wantErr: "'timout'"},
		{name: "another version", document: strings.Replace(cloud, "v1alpha1", "v9", 1), wantErr: "/apiVersion"},
		{name: "no kind", document: "apiVersion: ccmadm.dev/v1alpha1\n", wantErr: "kind"},
		{name: "an unknown mode", document: cloud + "mode: Pod\n", wantErr: "/mode"},
		{name: "a number for a duration", document: cloud + "wait: {timeout: 90}\n", wantErr: "/wait/timeout"},
		{name: "a duration without unit", document: cloud + "wait: {timeout: '90'}\n", wantErr: "does not match pattern"},
		{name: "a negative duration", document: cloud + "wait: {timeout: -1m}\n", wantErr: "does not match pattern"},
		{
			name:     "an argument without a value",
			document: cloud + "controllerManager: {extraArgs: [--v]}\n",
			wantErr:  "/controllerManager/extraArgs/0",
		},
		{
			name:     "a variable without a value",
			document: cloud + "controllerManager: {extraEnv: [REGION]}\n",
			wantErr:  "/controllerManager/extraEnv/0",
		},
		{name: "a credential from nowhere", document: cloud + "credentials: [{key: token}]\n", wantErr: "/credentials/0"},
		{
			name:     "a credential from two places",
			document: cloud + "credentials: [{key: a, file: a, env: A}]\n",
			wantErr:  "/credentials/0",
		},
		{name: "a cluster name with blanks", document: cloud + "clusterName: my cluster\n", wantErr: "/clusterName"},
		{name: "a node IP that is a host name", document: cloud + "nodeIP: node1\n", wantErr: "/nodeIP"},
		{name: "a word for on", document: cloud + "routes: 'true'\n", wantErr: "/routes"},
		{
			name:     "machines from two places",
			kind:     config.OnPremKind,
			document: onprem + "inventory: {file: a, configMap: b}\n",
			wantErr:  "/inventory",
		},
		{
			name:     "a policy that there is not",
			kind:     config.InventoryKind,
			document: list + "machines: []\npolicy: {deletion: always}\n",
			wantErr:  "/policy/deletion",
		},
		{
			name:     "a machine without id",
			kind:     config.InventoryKind,
			document: list + "machines: [{hostname: w1}]\n",
			wantErr:  "/machines/0",
		},
		{
			name:     "a profile without what it must say",
			kind:     templates.Kind,
			document: version + "kind: ProviderProfile\nname: x\ntitle: X\nstatus: Fine\nmodes: [DaemonSet]\n",
			wantErr:  "missing properties",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kind := tc.kind
			if kind == "" {
				kind = config.ConfigKind
			}
			if err := validate(t, kind, []byte(tc.document)); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("the schema: got %v, want %q", err, tc.wantErr)
			}
			if err := readers[kind]([]byte(tc.document)); err == nil {
				t.Error("ccmadm takes it")
			}
		})
	}
}

func TestSchema_Catalogue(t *testing.T) {
	for _, name := range templates.Names() {
		text, err := templates.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, templates.Kind, text); err != nil {
			t.Errorf("profile %s: %v", name, err)
		}
	}
}

// What the guides show can be copied.
func TestSchema_Guides(t *testing.T) {
	guides, err := filepath.Glob("../*/*.md") // tasks, tutorials, concepts and all others
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, guide := range append(guides, "../../README.md") {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			for document := range strings.SplitSeq(block, "---\n") {
				for kind := range documents {
					if !strings.Contains(document, "\nkind: "+kind+"\n") {
						continue
					}
					seen++
					if err := validate(t, kind, []byte(document)); err != nil {
						t.Errorf("%s: %v\n%s", guide, err, document)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no guide shows a document: this test looks for the wrong thing")
	}
}

func TestOf_Unknown(t *testing.T) {
	if _, err := schema.Of("Pod"); err == nil || !strings.Contains(err.Error(), "there are CloudConfiguration, ") {
		t.Errorf("got %v", err)
	}
}
