package agent

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestReporter_Deleted(t *testing.T) {
	named := func(name string) *v1alpha1.NodeAgent {
		return &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for _, tt := range []struct {
		name   string
		object any
		want   int
	}{
		{name: "its own", object: named("w1"), want: 1},
		{name: "its own, seen late", object: cache.DeletedFinalStateUnknown{Key: "w1", Obj: named("w1")}, want: 1},
		{name: "another's", object: named("w2"), want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &reporter{node: "w1", gone: make(chan struct{}, 1)}
			r.deleted(tt.object)
			r.deleted(tt.object) // does not wait
			if got := len(r.gone); got != tt.want {
				t.Errorf("asks for %d reports, want %d", got, tt.want)
			}
		})
	}
}
