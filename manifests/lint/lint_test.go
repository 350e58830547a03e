package lint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// good has no findings.
const good = `# the cloud-controller-manager
apiVersion: apps/v1
kind: Deployment
metadata:
  name: acme-cloud-controller-manager
  namespace: kube-system
spec:
  replicas: 1
  selector:
    matchLabels: {app: acme}
  strategy:
    type: Recreate
  template:
    metadata:
      labels: {app: acme}
    spec:
      serviceAccountName: acme
      hostNetwork: true
      dnsPolicy: Default
      nodeSelector:
        node-role.kubernetes.io/control-plane: "" # kubeadm's
      tolerations:
      - key: node.cloudprovider.kubernetes.io/uninitialized
        value: "true"
        effect: NoSchedule
      - {key: node-role.kubernetes.io/control-plane, operator: Exists}
      - {key: node.kubernetes.io/not-ready, operator: Exists}
      - {key: node.kubernetes.io/network-unavailable, operator: Exists}
      containers:
      - name: manager
        image: example.com/acme:v1
        args:
        - --cloud-provider=acme
        - --cloud-config=/etc/acme/cloud.conf
        - --cluster-name=mine
        - --configure-cloud-routes=false
        - --bind-address=127.0.0.1
        - --webhook-secure-port=0
        - --leader-elect=true
        - --authentication-skip-lookup=true
        env:
        - {name: KUBERNETES_SERVICE_HOST, value: 10.0.0.1}
        livenessProbe:
          httpGet: {path: /healthz, port: 10258, scheme: HTTPS, host: 127.0.0.1}
        volumeMounts:
        - {name: config, mountPath: /etc/acme}
      volumes:
      - name: config
        secret: {secretName: acme}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: acme
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [nodes], verbs: [update, patch]}
- {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [""], resources: [services/status], verbs: [patch]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: acme
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acme}
subjects:
- {kind: ServiceAccount, name: acme, namespace: kube-system}
`

func TestCheck(t *testing.T) {
	cases := []struct {
		name     string
		old, new string // the one mistake in good
		want     string // ID, line, and whether it can be fixed
		left     string // what is left after the fixes
	}{
		{"nothing wrong", "", "", "", ""},
		{"uninitialized with another value", `value: "true"`, `value: "yes"`, "B1:23 fix", ""},
		{"uninitialized with effect NoExecute", "effect: NoSchedule", "effect: NoExecute", "B1:23 fix", ""},
		{
			"not-ready with effect NoExecute",
			"not-ready, operator: Exists",
			"not-ready, operator: Exists, effect: NoExecute",
			"B2:23 fix",
			"",
		},
		{
			"the old name of control planes only",
			"{key: node-role.kubernetes.io/control-plane,",
			"{key: node-role.kubernetes.io/master,",
			"B3:23 fix",
			"",
		},
		{
			"no network-unavailable",
			"      - {key: node.kubernetes.io/network-unavailable, operator: Exists}\n",
			"",
			"F2:23 fix",
			"",
		},
		{"the old label", `node-role.kubernetes.io/control-plane: ""`, `node-role.kubernetes.io/master: ""`, "B4:21 fix", ""},
		{
			"a label's value",
			`node-role.kubernetes.io/control-plane: ""`,
			`node-role.kubernetes.io/control-plane: "true"`,
			"B4:21 fix",
			"",
		},
		{
			"affinity to the old label",
			"      hostNetwork: true\n",
			"      hostNetwork: true\n      affinity:\n        nodeAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n            nodeSelectorTerms:\n            - matchExpressions:\n              - {key: node-role.kubernetes.io/master, operator: Exists}\n",
			"B4:24 fix",
			"",
		},
		{
			"affinity to either label",
			"      hostNetwork: true\n",
			"      hostNetwork: true\n      affinity:\n        nodeAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n            nodeSelectorTerms:\n            - matchExpressions:\n              - {key: node-role.kubernetes.io/master, operator: Exists}\n            - matchExpressions:\n              - {key: node-role.kubernetes.io/control-plane, operator: Exists}\n",
			"",
			"",
		},
		{"rolling update", "    type: Recreate\n", "    type: RollingUpdate\n", "B5:12 fix", ""},
		{"two replicas", "replicas: 1", "replicas: 2", "B5:8", "B5:8"},
		{"no version", "acme:v1", "acme", "B18:31", "B18:31"},
		{"an old API version", "apiVersion: apps/v1", "apiVersion: extensions/v1beta1", "B19:2 fix", ""},
		{"pod network", "      hostNetwork: true\n", "", "C1:17 fix", ""},
		{"the cluster's DNS", "dnsPolicy: Default", "dnsPolicy: ClusterFirstWithHostNet", "C3:19 fix", ""},
		{"ClusterFirst on the host network", "dnsPolicy: Default", "dnsPolicy: ClusterFirst", "", ""},
		{"service address", "KUBERNETES_SERVICE_HOST", "OTHER", "C2:42", "C2:42"},
		{"probe over HTTP", "scheme: HTTPS, ", "", "B12:44 fix", ""},
		{"probe of another address", ", host: 127.0.0.1", "", "B12:44 fix", ""},
		{"probe of another path", "/healthz", "/readyz", "B12:44 fix", ""},
		{"probe of the old port", "port: 10258", "port: 10253", "B12:44 fix", ""},
		{"a flag that is gone", "        - --leader-elect=true\n", "        - --port=0\n", "B13:39", "B13:39"},
		{
			"a flag that is gone, and its value",
			"        - --leader-elect=true\n",
			"        - --port\n        - \"0\"\n",
			"B13:39",
			"B13:39",
		},
		{
			"unknown controller",
			"        - --leader-elect=true\n",
			"        - --controllers=*,-service-controller\n",
			"B14:39 fix",
			"",
		},
		{
			"unknown controllers, one in the first of two arguments and one in a pair",
			"        - --leader-elect=true\n",
			"        - --controllers=*,-route-controller\n        - --controllers\n        - cloud-node-controller,-service-controller\n",
			"B14:39 fix",
			"",
		},
		{"external", "--cloud-provider=acme", "--cloud-provider=external", "B15:33", "B15:33"},
		{
			"endpoints lock",
			"        - --leader-elect=true\n",
			"        - --leader-elect-resource-lock=endpointsleases\n",
			"B16:39 fix",
			"",
		},
		{"webhooks", "--webhook-secure-port=0", "--webhook-secure-port=10258", "B11:38 fix", ""},
		{"configuration elsewhere", "mountPath: /etc/acme", "mountPath: /etc/other", "D2:34", "D2:34"},
		{"the default name", "--cluster-name=mine", "--cluster-name=kubernetes", "G6:35", "G6:35"},
		{"no leader of one", "--leader-elect=true", "--leader-elect=false", "", ""},
		{"routes", "--configure-cloud-routes=false", "--configure-cloud-routes=true", "F1:36 fix", ""},
		{"two allocators", "        - --leader-elect=true\n", "        - --allocate-node-cidrs=true\n", "F6:39", "F6:39"},
		{"a provider without cluster IDs", "--cloud-provider=acme", "--cloud-provider=hcloud", "B17:30 fix", ""},
		{"may not read Nodes", "verbs: [get, list, watch]", "verbs: [get]", "D13:56 fix", ""},
		{"may not write Nodes", "verbs: [update, patch]", "verbs: [update]", "D8:56 fix", ""},
		{"may not write addresses", "nodes/status", "nodes/proxy", "D8:56 fix", ""},
		{"may not write Services", "services/status", "services/proxy", "D9:56 fix", ""},
		{"may not write events", "resources: [events]", "resources: [pods]", "D10:56 fix", ""},
		{"may not elect", "verbs: [get, create, update]", "verbs: [get]", "D6:56 fix", ""},
		{
			"accounts of the controllers",
			"        - --leader-elect=true\n",
			"        - --use-service-account-credentials=true\n",
			"D7:56 fix D7:56 fix",
			"",
		},
		{
			"may not read how to authenticate",
			"        - --authentication-skip-lookup=true\n",
			"        - --v=2\n",
			"D5:2 fix",
			"",
		},
		{
			"a name that is shared",
			"kind: ClusterRole\nmetadata:\n  name: acme",
			"kind: ClusterRole\nmetadata:\n  name: cloud-controller-manager",
			"D12:54",
			"D12:54",
		},
		{"everything", "kind: ClusterRole, name: acme", "kind: ClusterRole, name: cluster-admin", "D14:68", "D14:68"},
		{
			"permissions of another",
			"{kind: ServiceAccount, name: acme",
			"{kind: ServiceAccount, name: acme2",
			"D15:17",
			"D15:17",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.old != "" && !strings.Contains(good, c.old) {
				t.Fatalf("%q is not in the manifest", c.old)
			}
			input := strings.Replace(good, c.old, c.new, 1)
			set := parse(t, input)
			findings, err := set.Check()
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(findings); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
			_, left, err := lint.Fix(set.Check)
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(left); got != c.left {
				t.Errorf("left %q, want %q; text:\n%s", got, c.left, cmp.Diff(input, string(set.Files[0].Bytes())))
			}
			for line := range strings.SplitSeq(input, "\n") { // comments stay
				if _, comment, ok := strings.Cut(line, "# "); ok && !strings.Contains(string(set.Files[0].Bytes()), "# "+comment) {
					t.Errorf("the comment %q is gone", comment)
				}
			}
		})
	}
}

// Mistakes that take two changes to make.
func TestCheck_Pairs(t *testing.T) {
	cases := []struct {
		name    string
		replace []string
		add     string
		want    string
		left    string
	}{
		{
			"no leader among two",
			[]string{"replicas: 1", "replicas: 2", "--leader-elect=true", "--leader-elect=false"},
			"",
			"B5:8 H3:39 fix",
			"B5:8",
		},
		{
			"two on one port",
			nil,
			strings.ReplaceAll(good[:strings.Index(good, "---")], "acme-cloud", "second-cloud"),
			"B10:101",
			"B10:101",
		},
		{
			"pod security",
			nil,
			"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: kube-system\n  labels: {pod-security.kubernetes.io/enforce: baseline}\n",
			"B6:2",
			"B6:2",
		},
		{
			"an account that is not there",
			nil,
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: other, namespace: kube-system}\n",
			"D15:17",
			"D15:17",
		},
		{
			"tolerations that are shared",
			[]string{
				"      tolerations:\n",
				"      tolerations: &shared\n",
				"not-ready, operator: Exists}",
				"not-ready, operator: Exists, effect: NoExecute}",
				"        secret: {secretName: acme}\n",
				"        secret: {secretName: acme}\nx-unknown: *shared\n",
			},
			"",
			"B2:22 fix",
			"B2:22",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			input := strings.NewReplacer(c.replace...).Replace(good)
			if c.add != "" {
				input += "---\n" + c.add
			}
			set := parse(t, input)
			findings, err := set.Check()
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(findings); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
			if _, left, err := lint.Fix(set.Check); err != nil || summary(left) != c.left {
				t.Errorf("left %q, error %v, want %q", summary(left), err, c.left)
			}
		})
	}
}

func TestRules(t *testing.T) {
	seen := map[finding.ID]int{}
	for _, r := range lint.Rules() {
		if seen[r.ID]++; seen[r.ID] > 1 {
			t.Errorf("%s is there twice", r.ID)
		}
		if r.Title == "" || r.Why == "" || r.Do == "" || r.Severity == "" {
			t.Errorf("%s says too little", r.ID)
		}
	}
}

func TestParse(t *testing.T) {
	cases := []struct{ name, input, wantErr string }{
		{"not YAML", "a: b\n  c: d\n", "f.yaml:2: read YAML"},
		{"a list", "- a\n", "f.yaml:1: not a manifest"},
		{"a chart", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", "f.yaml:4: a Helm template"},
		{"a chart's condition", "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", "f.yaml:1: a Helm template"},
		{
			"a Jinja template",
			"apiVersion: v1\nkind: Pod\n{% if x %}\nspec: {}\n{% endif %}\n",
			"f.yaml:3: a Jinja template: check what Ansible makes of it",
		},
		{"a Jinja value", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ node_name }}-x\n", "f.yaml:4: a Jinja template"},
		{"not text", "a: \xff\n", "f.yaml:1: not UTF-8"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := lint.Parse("f.yaml", []byte(c.input))
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Fatalf("got error %v, want %q", err, c.wantErr)
			}
		})
	}
}

// What one object hides of itself, it does not hide of others.
func TestCheck_OneBadObject(t *testing.T) {
	bad := strings.Replace(good, "hostNetwork: true", "hostNetwork: 17", 1)
	other := strings.ReplaceAll(
		strings.Replace(good, "dnsPolicy: Default", "dnsPolicy: ClusterFirstWithHostNet", 1),
		"acme",
		"other",
	)
	findings, err := parse(t, bad+"---\n"+other).Check()
	if err == nil || !strings.Contains(err.Error(), "f.yaml:2: Deployment/kube-system/acme-cloud-controller-manager: ") {
		t.Errorf("got error %v", err)
	}
	if got := summary(findings); !strings.Contains(got, "C3:") {
		t.Errorf("found %q, want the other's dnsPolicy", got)
	}
}

// Providers that only serve Services may wait until nodes are initialized; those whose names come from a Service do not
// meet under one cluster name; an image of Docker Hub needs no registry in its name.
// goodManager is good without its permissions.
func goodManager() string { return good[:strings.Index(good, "---")] }

func TestCheck_ByProvider(t *testing.T) {
	const ended = "quay.io/equinix-oss/cloud-provider-equinix-metal:v3.8.1"
	manager := func(image, args string) string {
		return `apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: kube-system}
spec:
  strategy: {type: Recreate}
  template:
    spec:
      dnsPolicy: Default
      tolerations: [{operator: Exists}]
      containers:
      - name: manager
        image: ` + image + `
        args: [` + args + `]
        env: [{name: KUBERNETES_SERVICE_HOST, value: 10.0.0.1}]
`
	}
	tests := []struct {
		name  string
		input string
		want  string
	}{
		{
			name:  "a provider that nothing is known of",
			input: manager("example.com/ccm:v1", "--cloud-provider=acme"),
			want:  "C1:8 fix F1:11 fix G6:11",
		},
		{
			name: "load balancers alone",
			input: strings.Replace(
				manager("ghcr.io/kube-vip/kube-vip-cloud-provider:v0.0.12", "--leader-elect=true"),
				"[{operator: Exists}]",
				"[]",
				1,
			),
			want: "",
		},
		{
			name:  "load balancers alone, beside a manager on the host network",
			input: manager("ghcr.io/kube-vip/kube-vip-cloud-provider:v0.0.12", "--leader-elect=true") + "---\n" + goodManager(),
			want:  "",
		},
		{
			name:  "digitalocean, without a registry",
			input: manager("digitalocean/digitalocean-cloud-controller-manager:v0.1.68", "--leader-elect=true"),
			want:  "C1:8 fix",
		},
		{
			name: "hcloud's standard manifest is no error",
			input: manager(
				"docker.io/hetznercloud/hcloud-cloud-controller-manager:v1.35.0",
				"--allow-untagged-cloud, --cloud-provider=hcloud, --configure-cloud-routes=false",
			),
			want: "C1:8 fix",
		},
		{
			name:  "oci, named from the image",
			input: manager("ghcr.io/oracle/cloud-provider-oci:v1.32.0", "--v=2, --cluster-name=a, --configure-cloud-routes=false"),
			want:  "C1:8 fix",
		},
		{
			name: "a provider that has ended is named once",
			input: manager(ended, "--cloud-provider=equinixmetal, --cluster-name=a, --configure-cloud-routes=false") + "---\n" +
				manager(ended, "--cloud-provider=equinixmetal, --cluster-name=b, --configure-cloud-routes=false"),
			want: "B20:1 C1:8 fix C1:23",
		},
		{
			name: "two on the pod network, whose ports would meet on the host's",
			input: manager(
				"example.com/ccm:v1",
				"--cloud-provider=acme, --cluster-name=a, --configure-cloud-routes=false",
			) + "---\n" + goodManager(),
			want: "C1:8",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			findings, err := parse(t, tt.input).Check()
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(findings); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
			for _, f := range findings {
				if f.ID == "C1" && f.Severity != finding.SeverityWarning {
					t.Errorf("C1 is an %s", f.Severity)
				}
			}
		})
	}
}

func TestCheck_WrongType(t *testing.T) {
	_, err := parse(t, strings.Replace(good, "replicas: 1", "replicas: one", 1)).Check()
	if err == nil || !strings.Contains(err.Error(), "f.yaml:2: Deployment/kube-system/acme-cloud-controller-manager: ") {
		t.Errorf("got error %v", err)
	}
}

func TestCheck_List(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for doc := range strings.SplitSeq(good, "---\n") {
		lines := strings.Split(strings.TrimSpace(doc), "\n")
		if strings.HasPrefix(lines[0], "#") {
			lines = lines[1:]
		}
		b.WriteString("- " + strings.Join(lines, "\n  ") + "\n")
	}
	set := parse(t, strings.Replace(b.String(), "hostNetwork: true", "hostNetwork: false", 1))
	fixed, left, err := lint.Fix(set.Check)
	if err != nil || summary(fixed) != "C1:19 fix" || len(left) > 0 {
		t.Errorf("fixed %q, left %q, error %v", summary(fixed), summary(left), err)
	}
}

func TestCheck_Static(t *testing.T) {
	set := parse(t, `apiVersion: v1
kind: Pod
metadata: {name: cloud-controller-manager, namespace: kube-system}
spec:
  hostNetwork: true
  serviceAccountName: x
  containers:
  - name: c
    image: example.com/ccm:v1
    args: [--cloud-provider=acme, --cluster-name=a, --configure-cloud-routes=false]
    env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: b}}}]
  - {name: beside, image: x:v1, envFrom: [{secretRef: {name: s}}]}
  initContainers: [{name: first, image: x:v1, env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: b}}}]}]
  imagePullSecrets: [{name: s}]
  volumes:
  - {name: v, secret: {secretName: s}}
  - {name: told, projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}]}}
  - {name: token, projected: {sources: [{serviceAccountToken: {path: a}}]}}
`)
	findings, err := set.Check()
	if got, want := summary(findings), "A15:6 A15:11 A15:12 A15:13 A15:14 A15:16 A15:18"; err != nil || got != want {
		t.Errorf("found %q, error %v, want %q", got, err, want)
	}
}

func TestCheck_PassesOver(t *testing.T) {
	set := parse(t, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  template:
    spec:
      containers: [{name: a, image: registry.k8s.io/autoscaling/cluster-autoscaler:v1, command: [./cluster-autoscaler, --cloud-provider=aws]}]
`)
	findings, err := set.Check()
	want := []string{
		"f.yaml:1: CustomResourceDefinition/things.example.com",
		"f.yaml:5: Deployment/kube-system/cluster-autoscaler",
	}
	if diff := cmp.Diff(want, set.Passed); err != nil || len(findings) > 0 || diff != "" {
		t.Errorf("found %q, error %v, skipped (-want +got):\n%s", summary(findings), err, diff)
	}
}

// A large file is still checked while one waits.
func TestCheck_Large(t *testing.T) {
	var b strings.Builder
	b.WriteString(strings.Replace(good, "hostNetwork: true", "hostNetwork: false", 1))
	for i := 0; strings.Count(b.String(), "\n") < 5000; i++ {
		fmt.Fprintf(
			&b,
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata:\n%s",
			i,
			strings.Repeat("  a: b\n", 1)+strings.Repeat("  # padding\n", 40),
		)
	}
	start := time.Now()
	set := parse(t, b.String())
	if _, left, err := lint.Fix(set.Check); err != nil || len(left) > 0 {
		t.Errorf("left %q, error %v", summary(left), err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %s", d)
	}
}

func parse(t *testing.T, text string) *lint.Set {
	t.Helper()
	f, err := lint.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &lint.Set{Files: []*lint.File{f}}
}

func summary(findings []finding.Finding) string {
	var list []string
	for _, f := range findings {
		text := fmt.Sprintf("%s:%d", f.ID, f.Line)
		if f.Fixable() {
			text += " fix"
		}
		list = append(list, text)
	}
	return strings.Join(slices.Clip(list), " ")
}
