package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// sshClient remembers what each machine was sent, and fails for one.
type sshClient struct {
	mu   sync.Mutex
	sent map[string]string
	down string
}

func (c *sshClient) Run(_ context.Context, cmd machine.Command) error {
	line := strings.Join(cmd.Args, " ")
	if strings.Contains(line, " "+c.down+" ") {
		return errors.New("exit status 255")
	}
	data, err := io.ReadAll(cmd.In)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[line[strings.Index(line, "-- "):]] = string(data)
	return err
}

func TestImageDelivery_SSH(t *testing.T) {
	m, _ := machinetest.New(t)
	client := &sshClient{sent: map[string]string{}, down: "198.18.0.22"}
	m.Runner = client
	machinetest.Put(t, m, machine.AdminConf, phasestest.TokenKubeconfig([]byte(phasestest.ReadCA(t, machinetest.NewCA(t)))))
	env := kubelet.NewNode(m, kubelet.NodeOptions{}, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test")
	file := archive(t)
	here := 0
	err := ImageDelivery{
		Env: env, Remote: Remote{Via: ViaSSH, Parallel: 2}, File: file, Digest: "6b86",
		Here: func(context.Context) error { here++; return nil },
	}.Deliver(t.Context(), []*Node{
		{Name: "cp1", IP: "198.18.0.11", Here: true},
		{Name: "w1", IP: "198.18.0.21"},
		{Name: "w2", IP: "198.18.0.22"},
		{Name: "w3", IP: "198.18.0.23", Skipped: true},
		{Name: "w4", IP: "198.18.0.24"},
	})
	known := new(finding.Error)
	if !errors.As(err, &known) || !strings.Contains(known.Error(), "node w2: ") || strings.Contains(known.Error(), "w1") {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(known.Hint, "these nodes have the images: cp1, w1, w4;") {
		t.Errorf("got %q", known.Hint)
	}
	if here != 1 || len(client.sent) != 2 {
		t.Errorf("this machine %d times, others %v", here, client.sent)
	}
	for line, data := range client.sent {
		if data != "images" || !strings.Contains(line, "ccmadm images load - --sha256=6b86 --node=w") || !strings.Contains(line, "--ca-cert-hash=sha256:") {
			t.Errorf("%s: %q", line, data)
		}
	}
}

// Two runs may deliver images at the same time: neither removes the other's pod while that works. What has ended is removed.
func TestImageDelivery_PodOfAnotherRun(t *testing.T) {
	for _, tt := range []struct {
		phase   corev1.PodPhase
		age     time.Duration
		refused bool
	}{
		{corev1.PodRunning, time.Hour, true},
		{corev1.PodUnknown, time.Hour, true},
		{corev1.PodPending, time.Minute, true},
		{corev1.PodPending, 6 * time.Minute, false},
		{corev1.PodFailed, time.Minute, false},
	} {
		t.Run(fmt.Sprint(tt.phase, " for ", tt.age), func(t *testing.T) {
			n, refused := &Node{Name: "w1", Ready: true}, tt.refused
			other := StepPod(n, ImagesPrefix, "ccmadm", nil)
			other.Status.Phase, other.CreationTimestamp = tt.phase, metav1.NewTime(time.Now().Add(-tt.age))
			client := fake.NewClientset(other)
			client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Status.Phase = corev1.PodSucceeded
				return false, nil, nil
			})
			env := &workflow.Env{Streams: workflow.Streams{Out: io.Discard, Err: io.Discard}}
			d := ImageDelivery{Env: env, Client: client, Remote: Remote{Via: ViaPods}, Digest: "6b86"}
			err := d.to(t.Context(), n, []*Node{n}, "http://192.0.2.1/x")
			if refused {
				phasestest.WantError(t, err, "Pod/kube-system/"+other.Name+" is still running on Node/w1", finding.ExitRefused)
			} else if err != nil {
				t.Error(err)
			}
			_, err = client.CoreV1().Pods(other.Namespace).Get(t.Context(), other.Name, metav1.GetOptions{})
			if there := err == nil; there != refused {
				t.Errorf("it is there: %v, want %v", there, refused)
			}
			asked := 0
			for _, a := range client.Actions() {
				if list, is := a.(clienttesting.ListAction); is && a.Matches("list", "pods") {
					if asked++; asked > 1 || list.GetListRestrictions().Fields.String() != "spec.nodeName=w1" {
						t.Errorf("list %d asks for the pods of %v", asked, list.GetListRestrictions().Fields)
					}
				}
			}
			if asked == 0 {
				t.Error("nobody has asked for pods")
			}
		})
	}
}

// archive is an open file whose name another one has by now.
func archive(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "images.tar")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if _, err := file.WriteString("images"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("others"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestServe(t *testing.T) {
	file := archive(t)
	url, stop, err := serve(t.Context(), file, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, url); status != http.StatusOK || body != "images" {
		t.Errorf("%d %q", status, body)
	}
	if status, body := get(t, url[:strings.LastIndex(url, "/")+1]); status != http.StatusNotFound || strings.Contains(body, "images") {
		t.Errorf("without the secret: %d %q", status, body)
	}
	stop()
	if _, err := http.Get(url); err == nil { //nolint:noctx // it is over
		t.Error("it serves on after its end")
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url) //nolint:noctx // of this test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}
