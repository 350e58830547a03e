package redact

import (
	"strings"
	"testing"
)

const secret = "hunter2hunter2"

func TestText(t *testing.T) {
	for _, line := range []string{
		"password: " + secret, `"apiKey":"` + secret + `"`, "https://admin:" + secret + "@cloud.example.org/", "secret_access_key=" + secret,
		"https://" + secret + "@git.example.org/x", "https://admin:p@" + secret + "@cloud.example.org/", "redis://:" + secret + "@host:6379",
		"password = one two " + secret, `password="one, two ` + secret + `"`, `{\"token\": \"one ` + secret + `\"}`,
		`Authorization: "Basic ` + secret + `"`, "Authorization: Bearer " + secret, "curl -u admin:" + secret + " https://x",
		"kubelet --bearer-token " + secret + " --v=2", "--password=" + secret, "password: |\n  " + secret, "aadClientSecret: " + secret,
		"application-credential-secret=" + secret, "Set-Cookie: " + secret, "clientKeyData=" + secret,
		"-----BEGIN RSA PRIVATE KEY-----\nMII" + secret + "\n-----END RSA PRIVATE KEY-----",
		"-----BEGIN EC PRIVATE KEY-----\nMII" + secret + "\ncut",
		`{"key":"-----BEGIN PRIVATE KEY-----\nMII` + secret + `\n-----END PRIVATE KEY-----\n"}`,
		strings.Repeat("A", 40) + secret, "2026-11-22T10:00:00Z " + strings.Repeat("A", 60) + secret, "x.y\n" + secret + "\n-----END PRIVATE KEY-----", "x eyJhbGciOiJSUzI1NiJ9.eyJ" + secret + ".c2ln" + secret, "x dop_v1_" + strings.Repeat("a", 32) + " " + Mark,
		`{"headers":{"Authorization":["Basic ` + secret + `"],"Accept":["x"]}}`, `"X-Auth-Token":["` + secret + `"]`,
		"map[Authorization:[Basic " + secret + "] Accept:[x]]", "Authorization: Token " + secret, "Authorization: Digest a, response=" + secret,
		"Cookie: a=x; session=" + secret, `Environment="HTTPS_PROXY=http://` + secret + `"`, "Environment=ANY=" + secret,
		`Environment="KUBELET_KUBECONFIG_ARGS=--a=b" KUBELET_CONFIG_ARGS=--c=d REGISTRY_PASS=` + secret,
		`Environment="KUBELET_X=--a=b" "GH_PAT=one ` + secret + `" 'SENTRY_DSN=it\'s ` + secret + `' KUBELET_Y=c`,
		"Environment=KUBELET_X=y ANY=one\\ " + secret, `Environment="KUBELET_X=--v=2 --token=` + secret + `"`,
		"Environment=DB_PW=" + secret + " X-Environment=y", `Environment=KUBELET_X=y "ANY=not closed ` + secret, "REGISTRY_PASS=" + secret, "basic_auth: " + secret,
		"ghp_" + secret + secret, "abcdef.hunter2hunter200 is a bootstrap token",
	} {
		got := Text(line)
		if strings.Contains(got, secret) || got == line {
			t.Errorf("%q becomes %q", line, got)
		}
		if again := Text(got); again != got {
			t.Errorf("a second time %q becomes %q", got, again)
		}
	}
}

func TestText_LeavesWhatIsNoCredential(t *testing.T) {
	for _, line := range []string{
		`secret "cloud-config" not found`, `Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"`,
		`Environment="KUBELET_KUBECONFIG_ARGS=--a=b --c" KUBELET_CONFIG_ARGS=--config=/x KUBELET_EXTRA_ARGS=`, "Environment=",
		"PassEnvironment=REGISTRY_PASS", "UnsetEnvironment=GH_PAT",
		"authorization:", "--authorization-mode=Node,RBAC",
		`secrets "x" is forbidden: User "system:serviceaccount:kube-system:acme" cannot get resource "secrets" in API group ""`,
		`--authentication-token-webhook-cache-ttl=10s --use-service-account-credentials=true --tls-private-key-file=/etc/x.key`,
		`https://10.96.0.1:443/api/v1/namespaces: dial tcp 10.96.0.1:443: i/o timeout`,
		`image registry.k8s.io/pause@sha256:7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097`,
		`--discovery-token-ca-cert-hash=sha256:7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097`,
	} {
		if got := Text(line); got != line {
			t.Errorf("got %q, want %q", got, line)
		}
	}
}

func TestDocument(t *testing.T) {
	text := string(Document([]byte(`apiVersion: v1
kind: Secret
metadata:
  name: kept-name
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"data": "` + secret + `"}'
    example.org/lb-password: ` + secret + `
data: {a: ` + secret + `}
stringData: {b: ` + secret + `}
---
kind: Pod
spec:
  imagePullSecrets: [{name: kept-pull}]
  automountServiceAccountToken: true
  volumes: [{name: c, secret: {secretName: kept-secret}}]
  containers:
  - args: [--cloud-provider=kept-arg, --api-token=` + secret + `, --password, ` + secret + `]
    command: [sh, -c, "login --password ` + secret + `"]
    env:
    - {name: PLAIN, value: ` + secret + `}
    - {name: KUBERNETES_SERVICE_HOST, value: kept-host}
    - {name: FROM, valueFrom: {secretKeyRef: {name: kept-ref, key: password}}}
---
kind: ConfigMap
data:
  cloud.conf: |
    [Global]
    kept-setting = ` + secret + `
    # ` + secret + `
  kubeconfig: |
    users:
    - name: kept-user
      user: {token: ` + secret + `, client-key-data: ` + secret + `, password: ` + secret + `}
  numbers.json: '{"clientSecret": 8675309, "kept": 4}'
---
kind: ClusterConfiguration
apiServer:
  extraArgs:
  - {name: oidc-client-secret, value: ` + secret + `}
  - {name: v, value: kept-value}
  extraEnvs: [{name: HTTPS_PROXY, value: "` + secret + `"}]
certificateKey: ` + secret + `
bootstrapTokens: [{token: ` + secret + `}]
tokens: [` + secret + `]
# ` + secret)))
	if strings.Contains(text, secret) || strings.Contains(text, "8675309") {
		t.Errorf("a credential is left:\n%s", text)
	}
	for _, word := range []string{
		"kept-name", "kept-pull", "kept-secret", "kept-arg", "kept-host", "kept-ref", "kept-setting", "kept-user", "kept", "kept-value",
		"automountServiceAccountToken: true", "key: password", "[Global]",
	} {
		if !strings.Contains(text, word) {
			t.Errorf("%s is gone:\n%s", word, text)
		}
	}
	if again := string(Document([]byte(text))); again != text {
		t.Errorf("a second time it becomes\n%s", again)
	}
}

func TestKeys(t *testing.T) {
	for name, file := range map[string]string{
		"INI":       "[VirtualCenter \"kept\"]\nuser = kept-not\n password = \"" + secret + "\"\n" + secret + "\n",
		"YAML":      "kept:\n  list: [" + secret + ", 8675309]\n",
		"JSON":      `{"kept": "` + secret + `", "n": 8675309, "on": true}`,
		"no format": secret + " " + secret + " kept=" + secret,
	} {
		got := string(Keys([]byte(file)))
		if strings.Contains(got, secret) || strings.Contains(got, "8675309") || !strings.Contains(got, "kept") && name != "no format" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// A bundle has some 20 MiB of logs.
func BenchmarkText(b *testing.B) {
	log := strings.Repeat("I1122 09:00:00.000000       1 node_controller.go:433] Initializing node w1 with cloud provider\n"+
		"E1122 09:00:00.000000       1 reflector.go:205] failed to list *v1.Node: Get \"https://10.96.0.1:443/api\": i/o timeout\n", 5000)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		Text(log)
	}
}

// A unit's variables that are not the kubelet's lose their values, each for itself.
func TestText_Environment(t *testing.T) {
	const line = `Environment="KUBELET_A=--b --c" X_PASS=x 'D=e f' KUBELET_G=h`
	if got, want := Text(line), `Environment="KUBELET_A=--b --c" X_PASS=(redacted) D=(redacted) KUBELET_G=h`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
