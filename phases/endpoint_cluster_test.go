package phases

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/phases/machine/machinetest"
)

// endpointsOf are where the pods of the manager and of the node agent reach the API server.
func endpointsOf(t *testing.T, client kubernetes.Interface) (all []string) {
	t.Helper()
	for _, name := range []string{"onprem-cloud-controller-manager", v1alpha1.AgentName} {
		set, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, variable(set, "KUBERNETES_SERVICE_HOST")+":"+variable(set, "KUBERNETES_SERVICE_PORT"))
	}
	return all
}

func variable(set *appsv1.DaemonSet, name string) string {
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// A cluster that came to its control-plane endpoint later has the first machine's server in that one's admin.conf for
// ever: pods go by the cluster's configuration, whichever control plane applies it.
func TestCluster_Apply_AnEndpointOfALaterDay(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	said := scheduledOnprem()
	said.NodeAgent.Enabled = new(true)
	m := livingAs(t, said)
	if out, _, err := applyRun(t, m, "", Options{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := strings.Trim(strings.TrimPrefix(cluster.Config.Host, "https://"), "/")
	if got := endpointsOf(t, client); got[0] != server || got[1] != server {
		t.Fatalf("without a configuration of kubeadm's: %q, want %s", got, server)
	}
	maps := client.CoreV1().ConfigMaps("kube-system")
	config := made(t, maps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: kubeadmConfigName}, Data: map[string]string{clusterConfigKey: plainKubeadm},
	})
	if out, changed, err := applyRun(t, m, "", Options{}); err != nil || changed {
		t.Fatalf("without an endpoint: changed %v, %v\n%s", changed, err, out)
	}
	for _, tt := range []struct{ endpoint, want string }{
		{"lb.example:8443", "lb.example:8443"},
		{"'[2001:db8::1]:6443'", "2001:db8::1:6443"},
		{"lb.example", "lb.example:6443"},
	} {
		config.Data[clusterConfigKey] = plainKubeadm + "controlPlaneEndpoint: " + tt.endpoint + "\n"
		var err error
		if config, err = maps.Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if out, _, err := applyRun(t, m, "", Options{}); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := endpointsOf(t, client); got[0] != tt.want || got[1] != tt.want {
			t.Errorf("controlPlaneEndpoint %s: %q, want %s", tt.endpoint, got, tt.want)
		}
	}
	refused := false
	another := proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		no := refused && strings.HasSuffix(r.URL.Path, "/configmaps/"+kubeadmConfigName)
		if no {
			http.Error(w, "no", http.StatusForbidden)
		}
		return no
	})
	machinetest.Put(t, m, machine.AdminConf, kubeconfigText(t, another))
	if out, differs, err := applyRun(t, m, "", Options{DryRun: true}); err != nil || differs {
		t.Errorf("with admin.conf of another control plane: differs %v, %v\n%s", differs, err, out)
	}
	refused = true
	d, _ := run{options: Options{Living: true}}.must(t, m)
	if got, err := controlPlaneEndpoint(t.Context(), d); got != "" {
		t.Errorf("where nobody can be asked, it is %s", got)
	} else {
		wantError(t, err, "ask for the control-plane endpoint: read kubeadm's live configuration: ", finding.ExitRefused)
	}
}
