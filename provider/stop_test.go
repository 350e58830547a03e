package provider

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientbuilder "k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Nothing of ours runs on once the controller manager has stopped, wherever the
// inventory comes from.
func TestCluster_StopsWhatItStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machines.yaml")
	if err := os.WriteFile(file, []byte(listed), 0o600); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(plane.Config)
	maps := client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "stops"},
		Data:       map[string]string{v1alpha1.MachinesKey: listed},
	}
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, name := range []string{"stops", v1alpha1.LastGoodMachinesName} { // other tests start without a last good copy
			_ = maps.Delete(ctx, name, metav1.DeleteOptions{})
		}
	})
	server, caFile, connections := serveInventory(t)

	for name, source := range map[string]string{
		"file": "file: " + file, "ConfigMap": "configMap: stops", "URL": "url: " + server + ", caFile: " + caFile,
	} {
		t.Run(name, func(t *testing.T) {
			err := maps.Delete(t.Context(), v1alpha1.LastGoodMachinesName, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			cloud, err := New(strings.NewReader("apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\ninventory: " +
				"{" + source + "}\n"))
			if err != nil {
				t.Fatal(err)
			}
			c := cloud.(*Cloud)
			stop := make(chan struct{})
			c.Initialize(clientbuilder.SimpleControllerClientBuilder{ClientConfig: plane.Config}, stop)
			factory := informers.NewSharedInformerFactory(client, 0)
			c.SetInformers(factory)
			factory.Start(stop)

			until(t, "the inventory is read", func() bool {
				_, err := maps.Get(t.Context(), v1alpha1.LastGoodMachinesName, metav1.GetOptions{})
				return err == nil
			})
			if running() == "" {
				t.Fatal("nothing runs: this test cannot see what does not stop")
			}
			close(stop)
			factory.Shutdown()
			until(t, "nothing runs", func() bool { return running() == "" })
			until(t, "no connection is open", func() bool { return connections.Load() == 0 })
		})
	}
}

// serveInventory serves one by TLS, and counts the connections.
func serveInventory(t *testing.T) (url, caFile string, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte(listed))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			connections.Add(1)
		case http.StateClosed:
			connections.Add(-1)
		default: // at work, or idle
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.crt")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, caFile, connections
}

// running returns the goroutines that onprem has started, and those of what it uses.
func running() string {
	stacks := make([]byte, 1<<20)
	var ours []string
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		_, creator, _ := strings.Cut(stack, "created by ")
		if strings.HasPrefix(creator, "github.com/ccmadm/ccmadm/provider") || strings.HasPrefix(creator,
			"github.com/fsnotify/") ||
			strings.Contains(stack, "client-go/tools/record.") {
			ours = append(ours, stack)
		}
	}
	return strings.Join(ours, "\n\n")
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited until %s:\n%s", what, running())
		}
		runtime.Gosched()
		<-time.After(5 * time.Millisecond)
	}
}
