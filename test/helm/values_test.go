package helm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// A mirror may want credentials: all pods name the Secrets, those of agents and of the approver, too.
func TestTemplate_PullSecrets(t *testing.T) {
	secrets := []any{values{"name": "mirror"}}
	for provider, more := range map[string]values{
		"onprem": {"nodeAgent": values{"enabled": true}}, "azure": {"servingCertificates": values{"enabled": true}},
	} {
		value := merge(values{"provider": provider, "clusterName": "ber1", "imagePullSecrets": secrets}, more)
		got, err := template(writeChart(t), "v1.36.0", value)
		if err != nil {
			t.Fatal(err)
		}
		pods := 0
		for _, o := range got {
			spec, _ := o["spec"].(map[string]any)
			pod, is := spec["template"].(map[string]any)
			if !is {
				continue
			}
			pods++
			if diff := cmp.Diff(any(secrets), pod["spec"].(map[string]any)["imagePullSecrets"]); diff != "" {
				t.Errorf("%s: Secrets of %s (-want +got):\n%s", provider, o["kind"], diff)
			}
		}
		if pods < 2 {
			t.Errorf("%s: %d objects with pods", provider, pods)
		}
	}
}

// A chart that has this one as a dependency may switch it on and off by a condition. Alone it is on.
func TestTemplate_Dependency(t *testing.T) {
	for _, tt := range []struct {
		enabled bool
		want    int
	}{{true, 1}, {false, 0}} {
		c := writeChart(t)
		parent := &chart.Chart{Metadata: &chart.Metadata{
			APIVersion: "v2", Name: "platform", Version: "1.0.0",
			Dependencies: []*chart.Dependency{{Name: "ccmadm", Version: c.Metadata.Version, Condition: "ccmadm.enabled"}},
		}}
		parent.AddDependency(c)
		got, err := template(parent, "v1.36.0", values{"ccmadm": values{"enabled": tt.enabled, "provider": "aws", "clusterName": "ber1"}})
		if err != nil || min(len(got), 1) != tt.want {
			t.Errorf("enabled %t: %d objects, error %v", tt.enabled, len(got), err)
		}
	}
}

// Bad values are refused, with the name of the value.
func TestValues_Refused(t *testing.T) {
	c := writeChart(t)
	for name, tt := range map[string]struct {
		change  values
		wantErr string
	}{
		"no provider":                {values{"provider": ""}, "/provider"},
		"an unknown provider":        {values{"provider": "azur"}, "/provider"},
		"no cluster name":            {values{"clusterName": ""}, "/clusterName"},
		"a cluster name with quotes": {values{"clusterName": `a"b`}, "/clusterName"},
		"a static pod":               {values{"mode": "StaticPod"}, "/mode"},
		"an unknown value":           {values{"replicas": 3}, "replicas"},
		"an unknown feature":         {values{"features": values{"services": true}}, "services"},
		"routes that it has not": {
			values{"provider": "dummy", "podCIDR": "10.0.0.0/8", "features": values{"routes": true}}, "/features/routes",
		},
		"routes without pods":          {values{"features": values{"routes": true}}, "/podCIDR"},
		"an agent that it has not":     {values{"provider": "aws", "nodeAgent": values{"enabled": true}}, "/nodeAgent/enabled"},
		"a file that it does not read": {values{"provider": "kubevip", "cloudConfig": values{"enabled": true}}, "/cloudConfig/enabled"},
		"an argument without value":    {values{"extraArgs": []any{"--v"}}, "/extraArgs/0"},
		"a variable with its value":    {values{"extraEnv": []any{values{"name": "TOKEN", "value": "secret"}}}, "/extraEnv/0"},
		"an endpoint without a port":   {values{"controlPlaneEndpoint": "https://192.0.2.1"}, "/controlPlaneEndpoint"},
		"a mirror with a space":        {values{"imageRepository": "a b"}, "/imageRepository"},
		"a Secret by its name alone":   {values{"imagePullSecrets": []any{"mirror"}}, "/imagePullSecrets/0"},
		"a Secret without a name":      {values{"imagePullSecrets": []any{values{}}}, "/imagePullSecrets/0"},
		"off without a parent":         {values{"enabled": false}, "/enabled"},
		"a range that is none":         {values{"servingCertificates": values{"ranges": []any{"all"}}}, "/servingCertificates/ranges/0"},
		"all addresses":                {values{"servingCertificates": values{"ranges": []any{"0.0.0.0/0"}}}, "/servingCertificates/ranges/0"},
		"all addresses of IPv6":        {values{"servingCertificates": values{"ranges": []any{"::/0"}}}, "/servingCertificates/ranges/0"},
		"IPv4 in IPv6":                 {values{"servingCertificates": values{"ranges": []any{"::ffff:a00:0/104"}}}, "/servingCertificates/ranges/0"},
		"a credential in an argument":  {values{"extraArgs": []any{"--api-token=S3CRET"}}, "/extraArgs/0"},
		"a password in an address":     {values{"extraArgs": []any{"--proxy=https://user:pw@p:3128"}}, "/extraArgs/0"},
		"a feature that is null":       {values{"features": values{"lifecycle": nil}}, "lifecycle"},
		"an agent that is null":        {values{"nodeAgent": values{"enabled": nil}}, "enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := template(c, "v1.36.0", merge(values{"provider": "onprem", "clusterName": "ber1"}, tt.change))
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
			t.Log(err)
		})
	}
}
