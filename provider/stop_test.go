package provider

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientbuilder "k8s.io/controller-manager/pkg/clientbuilder"
)

// Nothing of ours runs on once the controller manager has stopped.
func TestCluster_StopsWhatItStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machines.yaml")
	if err := os.WriteFile(file, []byte(listed), 0o600); err != nil {
		t.Fatal(err)
	}
	cloud, err := New(strings.NewReader("apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\ninventory: {file: " + file + "}\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := cloud.(*Cloud)
	stop := make(chan struct{})
	c.Initialize(clientbuilder.SimpleControllerClientBuilder{ClientConfig: plane.Config}, stop)
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(plane.Config), 0)
	c.SetInformers(factory)
	factory.Start(stop)

	until(t, "the inventory is read", func() bool { return c.store.Status().Readings > 0 })
	if running() == "" {
		t.Fatal("nothing runs: this test cannot see what does not stop")
	}
	close(stop)
	factory.Shutdown()
	until(t, "nothing runs", func() bool { return running() == "" })
}

// running returns the goroutines that this package has started, but for tests.
func running() string {
	stacks := make([]byte, 1<<20)
	var ours []string
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		_, creator, _ := strings.Cut(stack, "created by ")
		if strings.HasPrefix(creator, "github.com/ccmadm/ccmadm/provider.") || strings.Contains(stack, "client-go/tools/record.") {
			ours = append(ours, stack)
		}
	}
	return strings.Join(ours, "\n\n")
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited until %s:\n%s", what, running())
		}
		runtime.Gosched()
		<-time.After(5 * time.Millisecond)
	}
}
