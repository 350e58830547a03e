package main

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/controller-manager/pkg/clientbuilder"
)

// Upstream's recorder alone drops what does not fit into its queue of 1,000.
func TestCluster_NoEventIsDropped(t *testing.T) {
	const n, source = 3000, "no-event-is-dropped"
	config := *plane.Config
	config.QPS = -1
	queue := make(eventQueue, maxEvents)
	queue.run(t.Context())
	c := queueing{clientbuilder.SimpleControllerClientBuilder{ClientConfig: &config}, queue}.ClientOrDie(source)
	broadcaster := record.NewBroadcaster(record.WithContext(t.Context()))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: source})
	for i := range n {
		name := fmt.Sprintf("crowd-%d", i)
		recorder.Event(&corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}, corev1.EventTypeNormal,
			"Synced", name)
		if i%100 == 0 {
			<-time.After(50 * time.Millisecond) // 2,000 Nodes a second
		}
	}
	about := metav1.ListOptions{FieldSelector: "source=" + source}
	written, deadline := 0, time.Now().Add(4*patience)
	for written < n && time.Now().Before(deadline) {
		<-time.After(time.Second) // a list of thousands is no small request
		list, err := client(t, plane.Config).CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), about)
		if err != nil {
			t.Fatal(err)
		}
		written = len(list.Items)
	}
	if written != n {
		t.Errorf("%d of %d Events are written", written, n)
	}
}
