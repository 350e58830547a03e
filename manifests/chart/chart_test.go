package chart

import (
	"bytes"
	"compress/gzip"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/templates"
)

// test/helm compares what Helm makes of the chart with what render prints. Here is what needs no Helm: a template for each provider,
// without a token of this package, the same each time, and small enough for the Secret in which Helm keeps a release.
func TestFiles(t *testing.T) {
	files, err := Files("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Files("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(files, again, bytes.Equal) {
		t.Error("the same version gives two charts")
	}
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, err := zw.Write(files[name]); err != nil {
			t.Fatal(err)
		}
		for _, token := range append(all(), token{text: extraArg}, token{text: image}, token{text: tag}, token{text: "ccmadm-chart-"}) {
			if bytes.Contains(files[name], []byte(token.text)) {
				t.Errorf("%s has %q", name, token.text)
			}
		}
		if bytes.Contains(files[name], []byte("%LINE%")) || bytes.Contains(files[name], []byte("%INDENT%")) {
			t.Errorf("%s has a block that is not filled in", name)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	if limit := 200 << 10; packed.Len() > limit {
		t.Errorf("the chart has %d bytes, and Helm keeps it in a Secret: want %d at most", packed.Len(), limit)
	}
	if about := string(files["Chart.yaml"]); !strings.Contains(about, "\nversion: 1.2.3\nappVersion: v1.2.3\n") {
		t.Errorf("Chart.yaml is\n%s", about)
	}
	for _, name := range templates.Names() {
		if len(files["templates/"+name+".yaml"]) == 0 {
			t.Errorf("provider %s has no template", name)
		}
	}
}

// Helm deletes what a release no longer has. Definitions are kept, because what users wrote goes with them.
func TestFiles_DefinitionsAreKept(t *testing.T) {
	files, err := Files("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for name, data := range files {
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			if !strings.Contains(text, "\nkind: CustomResourceDefinition\n") {
				continue
			}
			number++
			if !strings.Contains(text, "\n    helm.sh/resource-policy: keep\n") {
				t.Errorf("%s: a definition is deleted with the release:\n%.300s", name, text)
			}
		}
	}
	if number == 0 {
		t.Error("the chart has no definitions")
	}
}

func TestChartVersion(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "dev": "0.0.0-dev", "v1": "0.0.0-dev"} {
		if got := chartVersion(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}

// Static pods are files on machines, and no part of the chart.
func TestModes(t *testing.T) {
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if modes := Modes(p); len(modes) == 0 || slices.Contains(modes, templates.StaticPod) {
			t.Errorf("%s: %v", name, modes)
		}
	}
}

// The chart takes the names of clusters that ccmadm render takes.
func TestClusterNames(t *testing.T) {
	schema := properties(nil)["clusterName"].(object)
	pattern, longest := regexp.MustCompile(schema["pattern"].(string)), schema["maxLength"].(int)
	for _, name := range []string{
		"prod", "1", "a.b", "ber1-prod.example", strings.Repeat("a", 253),
		"Prod_1", "prod_1", "Prod", "-a", "a-", "a..b", "a.-b", "a b", strings.Repeat("a", 254),
	} {
		errs := (&config.CloudConfiguration{ClusterName: name}).Validate()
		if takes := pattern.MatchString(name) && len(name) <= longest; takes != (len(errs) == 0) {
			t.Errorf("%s: the chart takes it: %t, and ccmadm: %v", name, takes, errs)
		}
	}
}

// The chart refuses arguments with a credential as ccmadm render does: Helm would keep them in the cluster.
func TestArguments(t *testing.T) {
	refused := argument()["not"].(object)["anyOf"].([]any)
	matches := func(schema any, arg string) bool {
		return regexp.MustCompile(schema.(object)["pattern"].(string)).MatchString(arg)
	}
	named := refused[1].(object)["allOf"].([]any)
	for _, arg := range []string{
		"--v=4", "--api-token=S3CRET", "--clientSecret=x", "--vip-password=a/b", "--proxy=https://user:pw@p:3128", "--proxy=https://TOKEN@p:3128",
		"--proxy=https://p:3128", "--token-file=/etc/x", "--token=/var/run/token", "--token=$(TOKEN)", "--token=true", "--token=", "--bypass=x",
		"--allocate-node-cidrs=false", "--cluster-name=secret", "--private_key=x", "--bgp-key=x",
		"--use-service-account-credentials=true",
	} {
		takes := !matches(refused[0], arg) && (!matches(named[0], arg) || matches(named[1].(object)["not"], arg))
		errs := (&config.CloudConfiguration{ControllerManager: config.ControllerManager{ExtraArgs: []string{arg}}}).Validate()
		if takes != (len(errs) == 0) {
			t.Errorf("%s: the chart takes it: %t, and ccmadm: %v", arg, takes, errs)
		}
	}
}

// Helm takes a null for "not there": a switch that is not there is refused.
func TestSwitches(t *testing.T) {
	for name, want := range map[string][]string{
		"features": {"lifecycle", "routes"}, "nodeAgent": {"enabled"}, "cloudConfig": {"enabled"}, "servingCertificates": {"enabled"},
		"monitoring": {"enabled"},
	} {
		if got := properties(nil)[name].(object)["required"]; !slices.Equal(got.([]string), want) {
			t.Errorf("%s requires %v, want %v", name, got, want)
		}
	}
}

// The chart takes the ranges that ccmadm render and the approver take: with another one the cloud-controller-manager would not start.
func TestRanges(t *testing.T) {
	schema := properties(nil)["servingCertificates"].(object)["properties"].(object)["ranges"].(object)["items"].(object)
	pattern := regexp.MustCompile(schema["pattern"].(string))
	not := regexp.MustCompile(schema["not"].(object)["pattern"].(string))
	for text, want := range map[string]bool{
		"192.0.2.0/24": true, "fd00::/64": true, "10.0.0.0/8": true, "10.1.2.3/8": true, "2001:db8::7/32": true, "64:ff9b::192.0.2.0/120": true,
		"::ffff/112": true, "::ffff:0:0:0/80": true, "1::ffff:a00:0/104": true,
		"0.0.0.0/0": false, "::/0": false, "10.1.2.3/0": false, "10.0.0.0/00": false, "192.0.2.1": false,
		"::ffff:10.0.0.0/104": false, "::ffff:a00:0/104": false, "::FFFF:a00:0/104": false, "0:0::0:ffff:a00:0/104": false,
		"0:0:0:0:0:ffff:10.0.0.0/104": false, "0000:0:0:0:0:ffff::/96": false,
	} {
		errs := (&config.CloudConfiguration{ServingCertificates: config.ServingCertificates{AddressRanges: []string{text}}}).Validate()
		if takes := pattern.MatchString(text) && !not.MatchString(text); takes != want || (len(errs) == 0) != want {
			t.Errorf("%s: the chart takes it: %t, and ccmadm: %v; want %t", text, takes, errs, want)
		}
	}
}
