package fleet

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Of a pod that its kubelet has refused there is no log, and none is asked for. Of one that has run it is shown.
func TestPods_RefusedByItsKubelet(t *testing.T) {
	for _, tt := range []struct {
		name     string
		statuses []corev1.ContainerStatus
		logs     int
		want     string
	}{
		{name: "refused", want: "it ended as Failed, OutOfpods Node has not enough"},
		{
			name: "failed", logs: 1, want: "it ended as Failed, OutOfpods Node has not enough, see its lines above",
			statuses: []corev1.ContainerStatus{{Name: "ccmadm"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				pod.Status = corev1.PodStatus{
					Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node has not enough", ContainerStatuses: tt.statuses,
				}
				return false, nil, nil
			})
			var out bytes.Buffer
			env := &workflow.Env{Streams: workflow.Streams{Out: &out, Err: &out}}
			b := Pods{Env: env, Client: client, Prefix: StepPrefix, Takes: time.Minute}
			err := b.Run(t.Context(), &Node{Name: "w1"}, Plain{})
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q at its end", err, tt.want)
			}
			logs := 0
			for _, a := range client.Actions() {
				if a.GetSubresource() == "log" {
					logs++
				}
			}
			if logs != tt.logs || strings.Contains(out.String(), "fake logs") != (tt.logs > 0) {
				t.Errorf("%d logs were read:\n%s", logs, &out)
			}
		})
	}
}
