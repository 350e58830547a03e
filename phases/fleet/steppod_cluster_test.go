package fleet

import (
	"bytes"
	"net/http"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// What a pod says is read to an end, whether or not it has one.
func TestCluster_PodLog_NoEnd(t *testing.T) {
	config := phasestest.Proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				break
			}
		}
		return true
	})
	client := kubernetes.NewForConfigOrDie(config)
	var said bytes.Buffer
	l := &podLog{b: &Pods{Client: client}, pod: "x", said: &said}
	if err := l.next(t.Context()); err != nil || said.Len() != maxSaid {
		t.Errorf("%d bytes were read: %v", said.Len(), err)
	}
}
