package nodes

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const secret = "hunter2hunter2"

// What wait and status quote of a log, of the kubelet and of a pod has no credential in it.
func TestShorten_Secrets(t *testing.T) {
	for _, line := range []string{
		"E1122 09:00:00.1 1 x.go:1] login with password=" + secret + " fails", `pull "https://u:` + secret + `@registry/x": denied`,
		strings.Repeat("x", 190) + " password=" + secret + strings.Repeat(" y", 200), // the cut is in the credential
	} {
		if got := Shorten(line); strings.Contains(got, secret[:6]) {
			t.Errorf("got %q", got)
		}
	}
}

func TestLinesOf_Secrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "password:\n  "+secret+"\ntoken="+secret+"\nkept\n")
	}))
	t.Cleanup(server.Close)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm"}}
	got := linesOf(t.Context(), client, pod, "ccm", false)
	if text := strings.Join(got, "\n"); strings.Contains(text, secret) || !strings.HasSuffix(text, "kept") {
		t.Errorf("got %q", got)
	}
}
