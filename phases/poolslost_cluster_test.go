package phases

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// The definition of AddressPool was deleted, and all pools with it: apply brings back the definition, and says so.
func TestCluster_Apply_LostPools(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	phasestest.Made(t, kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().Services("default"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Annotations: map[string]string{v1alpha1.AllocatedAnnotation: "192.0.2.4"},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}) // livingAs has not brought the definitions
	if err != nil || !changed {
		t.Fatalf("changed %v, %v\n%s", changed, err, out)
	}
	const want = "there is no AddressPool, and these have addresses from one: Service/default/web"
	if !strings.Contains(out, want) {
		t.Errorf("it does not say %q\n%s", want, out)
	}
}
