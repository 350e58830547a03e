package diagnosis

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/templates"
)

// hostile is what a Node, a log or a cloud may say to whoever reads it on a terminal or in a browser.
const hostile = "x\x1b[2J\x1b]0;owned\a\u202e<script>alert(1)</script>\r\nerror B1: all is well"

func TestDiagnose_HostileText(t *testing.T) {
	s := newSnapshot(templates.Deployment, 2, tainted, leaderless, waiting("CrashLoopBackOff", hostile), logged("E1122 "+hostile), service(hostile, 1e13))
	s.Nodes[1].Name, s.Version = hostile, hostile
	s.Nodes[2].Status.NodeInfo.KubeletVersion = "v1.99.0" + hostile
	s.NotSeen = []NotSeen{{What: "things", Message: hostile}}
	s.Webhooks = []Webhook{{Object: "ValidatingWebhookConfiguration/" + hostile, Name: hostile, Namespace: hostile, Service: hostile, Guards: []string{"pods"}}}
	d := Diagnose(s)
	var text bytes.Buffer
	if err := d.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, n := range d.Nodes {
		if err := d.Why(n.Node).WriteText(&text); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Why(hostile).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, r := range text.String() {
		if r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)) {
			t.Fatalf("%q is in the text:\n%q", r, text.String())
		}
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "error B1: all is well") {
			t.Errorf("a log made a finding:\n%s", text.String())
		}
	}
}

// No credential is in a snapshot, wherever somebody has put one.
func TestSnapshot_NoCredentials(t *testing.T) {
	const secret = "hunter2hunter2"
	p := pod("ccm-x7k2p", "cp1")
	c := &p.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "AWS_SECRET_ACCESS_KEY", Value: secret}, {Name: "PLAIN", Value: secret}, {Name: "KUBERNETES_SERVICE_HOST", Value: "192.0.2.1"}}
	c.Args = append(c.Args, "--api-token="+secret, "--password", secret, "--use-service-account-credentials=true", "--cloud-config=/etc/cloud.conf")
	p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: secret, "example.org/token": secret}
	p.Spec.InitContainers = []corev1.Container{{Args: []string{secret}}}
	waits := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: "token=" + secret}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{waits}
	trimPod(&p)
	n := node("w1")
	n.Annotations["example.org/secret"] = secret
	trimNode(&n)
	e := corev1.Event{Message: `pull: Authorization: Bearer ` + secret}
	trimEvent(&e)
	svc := corev1.Service{}
	svc.Annotations = map[string]string{"example.org/lb-password": secret}
	trimService(&svc)
	kubeadm := redactKubeadm(`apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
apiServer:
  extraArgs:
  - {name: cloud-provider, value: external}
  - name: oidc-client-secret
    value: ` + secret + `
  extraEnvs:
  - name: HTTPS_PROXY
    value: http://` + secret + `.example.org
controllerManager:
  extraEnvs: [{name: PLAIN, value: "` + secret + `, and more"}]
`)
	s := &Snapshot{Kubeadm: kubeadm, Pods: []corev1.Pod{p}, Nodes: []corev1.Node{n}}
	s.Events, s.Services = []corev1.Event{e}, []corev1.Service{svc}
	for _, line := range []string{
		"password: " + secret, `"apiKey":"` + secret + `"`, "https://admin:" + secret + "@cloud.example.org/", "secret_access_key=" + secret,
		"AKIAABCDEFGHIJKLMNOP", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJr.c2lnbmF0dXJl", "-----BEGIN RSA PRIVATE KEY-----MIIE", "access-token='" + secret + "'",
		`password="one, two ` + secret + `"`, `{\"token\": \"one ` + secret + `\"}`, `Authorization: "Basic ` + secret + `"`,
	} {
		s.Logs = map[string][]string{"ccm": append(s.Logs["ccm"], redact.Text(line))}
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{secret, "AKIA", "eyJ", "MIIE"} {
		if bytes.Contains(data, []byte(word)) {
			t.Errorf("%s is in the snapshot: %s", word, data)
		}
	}
	for _, word := range []string{"192.0.2.1", "credentials=true", "/etc/cloud.conf", "admin:", "value: external", "v1.36.3"} {
		if !bytes.Contains(data, []byte(word)) {
			t.Errorf("%s is gone from the snapshot: %s", word, data)
		}
	}
}

func TestSnapshot_ThereAndBack(t *testing.T) {
	s := newSnapshot(templates.DaemonSet, 3, tainted, leaderless, waiting("ImagePullBackOff", "not found"), without(partValidating))
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	back, err := Read("file", &file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := words(Diagnose(back)), words(Diagnose(s)); got != want || got != "W25(4)" {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := back.notSeen(partValidating); n == nil || n.Reason != "Forbidden" {
		t.Errorf("what was not seen is lost: %v", back.NotSeen)
	}
}

func TestRead_SomethingElse(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "kind: Snapshot", "another kind": `{"apiVersion":"v1","kind":"NodeList","items":[]}`,
		"another version": `{"apiVersion":"ccmadm.dev/doctor-v9","kind":"Snapshot","taken":"2026-11-22T09:00:00Z"}`,
		"no time":         `{"apiVersion":"ccmadm.dev/doctor-v1","kind":"Snapshot"}`,
		"no shape":        `{"apiVersion":"ccmadm.dev/doctor-v1","kind":"Snapshot","taken":"2026-11-22T09:00:00Z","nodes":7}`,
	} {
		if _, err := Read("a.json", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), "read snapshot a.json: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whatever a file has, there is an answer.
func FuzzDiagnose(f *testing.F) {
	for _, s := range []*Snapshot{newSnapshot(templates.Deployment, 2, tainted), newSnapshot(templates.StaticPod, 1, leaderless, service("a", 1e13, deleted))} {
		var file bytes.Buffer
		if err := s.Write(&file); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		d := Diagnose(s)
		var out bytes.Buffer
		if err := d.WriteText(&out, true); err != nil {
			t.Error(err)
		}
		if err := d.Why("cp1").WriteText(&out); err != nil {
			t.Error(err)
		}
	})
}
