package record

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

// What keeps an API server from answering is said, and not that the time ran out in which it was asked.
func TestAskRecord_Unreachable(t *testing.T) {
	const host = "127.0.0.1:1" // nothing listens there
	for range 2 {              // whether the last question comes just before the end or just after is chance
		client, err := kubernetes.NewForConfig(&rest.Config{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = workflow.AskRecord(ctx, client)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v, want connection refused", err)
		}
	}
}
