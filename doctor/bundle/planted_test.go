package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
)

// shapes are how a credential stands in a line; each gets a secret of its own.
func shapes() []string {
	var list []string
	for _, name := range []string{
		"password", "dbpass", "ADMINPASS", "REGISTRY_PASS", "GH_PAT", "USERPWD", "DB_PW", "api.key", "apiKey", "sshkey", "psk",
		"AWS_SECRET_ACCESS_KEY", "clientSecret", "accessToken", "smtp-password", "signing_key", "X-Amz-Signature",
		"gcp_credentials_json", "passphrase", "session_cookie",
	} {
		list = append(list, name+"=%s", name+": %s", `"`+name+`": "%s"`)
	}
	for _, scheme := range []string{"http", "https", "redis", "postgres"} {
		list = append(list, scheme+"://user:%s@host.example/x", "--proxy="+scheme+"://user:%s@host.example")
	}
	return append(list, "--vault-pass %s", "--token %s", "Authorization: Bearer %s", "Cookie: a=%s", "https://x/?sv=1&sig=%s",
		"passwords: [a, %s]", "passphrase: |\n  one\n  %s", "curl -u admin:%s https://x")
}

// What is planted, in whatever place, is in nothing that is written or shown.
func TestPlanted(t *testing.T) {
	all := shapes()
	out := map[string]string{}
	b := New(time.Now())
	secret := func(i int) string { return fmt.Sprintf("hunter2hunter%03d", i) }
	for i, shape := range all {
		line := fmt.Sprintf(shape, secret(i))
		at := func(place string) string { return fmt.Sprintf("%d-%s", i, place) }
		b.Text(at("log"), "I1122 09:00:00 kept\n"+line+"\n")
		b.Missed(at("missed"), errors.New(line))
		b.Keys(at("cloud.conf"), []byte("[Global]\nx = "+line+"\n"))
		b.Document(at("broken.yaml"), []byte("kind: Pod\n\t"+line+"\n"))
		b.Object(at("configmap.yaml"), &corev1.ConfigMap{Data: map[string]string{"app": line, "cloud.conf": line}})
		b.Object(at("secret.yaml"), &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret"}, StringData: map[string]string{"a": secret(i)}})
		b.Object(at("pod.json"), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.org/note": line}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Args: []string{line}, Command: []string{"sh", "-c", line}, Env: []corev1.EnvVar{{Name: "PLAIN", Value: secret(i)}},
			}}},
		})
		b.Object(at("event.yaml"), &corev1.Event{Message: line})
		record := state.Record{}
		record.Configuration.ControllerManager.ExtraEnv = []string{"PLAIN=" + secret(i)}
		b.Object(at("record.yaml"), &record)
		c := config.CloudConfiguration{ControllerManager: config.ControllerManager{
			ExtraArgs: []string{line, "--api-token=" + secret(i)}, ExtraEnv: []string{"DB_PASS=" + secret(i)},
		}}
		out[at("error of bad input")] = c.Validate().ToAggregate().Error()
	}
	for name, data := range b.files {
		out[strings.TrimPrefix(name, root+"/")] = string(data)
	}
	out["not-seen.txt"] = strings.Join(b.NotSeen(), "\n")
	expectKept(t, len(all), out)
	found := 0
	for place, text := range out {
		for i, shape := range all {
			if bytes.Contains([]byte(text), []byte(secret(i))) {
				t.Errorf("%s has the secret of %q: %s", place, shape, text)
				found++
			}
		}
	}
	t.Logf("%d planted, %d places read, %d found", len(all), len(out), found)
}

// expectKept: each file is there, with what is no credential: an empty archive has no secret, either.
func expectKept(t *testing.T, shapes int, out map[string]string) {
	t.Helper()
	kept := map[string]string{
		"log": "I1122 09:00:00 kept\n", "cloud.conf": "[Global]\n", "broken.yaml": "kind: Pod\n", "configmap.yaml": "app: ",
		"secret.yaml": "kind: Secret\n", "pod.json": `"PLAIN"`, "event.yaml": "message: ",
		"record.yaml": "PLAIN", "error of bad input": "extraArgs",
	}
	for i := range shapes {
		for place, text := range kept {
			if name := fmt.Sprintf("%d-%s", i, place); !strings.Contains(out[name], text) {
				t.Errorf("%s lacks %q: %q", name, text, out[name])
			}
		}
		if name := fmt.Sprintf("%d-missed: ", i); !strings.Contains(out["not-seen.txt"], name) {
			t.Errorf("not-seen.txt lacks %q", name)
		}
	}
}

// An Event's message may have lines: it loses its credentials before it becomes one.
func TestPlanted_Events(t *testing.T) {
	const secret = "hunter2hunter2"
	client := fake.NewClientset(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "e"}, Message: "config is\npassphrase: |\n  one\n  " + secret + "\npassword = one two " + secret,
	})
	b := New(time.Now())
	b.events(t.Context(), client)
	for name, data := range b.files {
		if bytes.Contains(data, []byte(secret)) || !bytes.Contains(data, []byte("config is")) {
			t.Errorf("%s: %s", name, data)
		}
	}
	if len(b.files) != 1 {
		t.Errorf("%d files", len(b.files))
	}
}
