package apply

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

const (
	listSubject   = "ConfigMap/kube-system/ccmadm-applied"
	formerSubject = "ConfigMap/kube-system/ccmadm-inventory"
)

func configMaps() typedv1.ConfigMapInterface {
	return kubernetes.NewForConfigOrDie(cluster.Config).CoreV1().ConfigMaps(v1alpha1.Namespace)
}

// listed is the data of a list, or nil where there is none.
func listed(t *testing.T, name string) map[string]string {
	t.Helper()
	list, err := configMaps().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return list.Data
}

// asBefore writes the list as releases before its renaming did.
func asBefore(t *testing.T, data map[string]string) {
	t.Helper()
	former := &corev1.ConfigMap{Data: data}
	former.Name, former.Labels = v1alpha1.FormerAppliedName, map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
	if _, err := configMaps().Create(t.Context(), former, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager}); err != nil {
		t.Fatal(err)
	}
}

// formerCluster has the record applied, and a list under its former name only.
func formerCluster(t *testing.T) *Cluster {
	t.Helper()
	c := newCluster(t, cluster.Config, false)
	apply(t, c, Record, mustRecord(t))
	data := listed(t, v1alpha1.AppliedName)
	if err := configMaps().Delete(t.Context(), v1alpha1.AppliedName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	asBefore(t, data)
	return c
}

func TestCluster_Apply_FormerList(t *testing.T) {
	c := formerCluster(t)
	record := mustRecord(t)
	fewer := []*manifests.Object{record[0], record[2]}
	wanted := []Change{
		{Subject: "ConfigMap/kube-system/ccmadm-config", Action: "unchanged"},
		{Subject: "RoleBinding/kube-system/ccmadm:record", Action: "unchanged"},
	}
	gone := []Change{
		{Subject: "Role/kube-node-lease/ccmadm:record", Action: "deleted"},
		{Subject: "RoleBinding/kube-node-lease/ccmadm:record", Action: "deleted"},
		{Subject: "Role/kube-system/ccmadm:record", Action: "deleted"},
	}
	created := Change{Subject: listSubject, Action: "created"}
	removed := Change{Subject: formerSubject, Action: "deleted"}

	p, out := printer(t, cluster.Config)
	wantChanges(t, slices.Concat(wanted, []Change{created}, gone, []Change{removed}), apply(t, p, Record, fewer))
	if !strings.Contains(out.String(), "[dryrun] would delete "+formerSubject+"\n") {
		t.Errorf("the dry run does not show it:\n%s", out)
	}
	if len(listed(t, v1alpha1.FormerAppliedName)) != 5 || listed(t, v1alpha1.AppliedName) != nil {
		t.Error("the dry run wrote")
	}
	slices.Reverse(wanted) // as the engine orders them
	wantChanges(t, slices.Concat(wanted, gone, []Change{created, removed}), apply(t, c, Record, fewer))
	wantChanges(t, append(wanted, Change{Subject: listSubject, Action: "unchanged"}), apply(t, c, Record, fewer))
	if listed(t, v1alpha1.FormerAppliedName) != nil || len(listed(t, v1alpha1.AppliedName)) != 2 {
		t.Errorf("the lists are %v and %v", listed(t, v1alpha1.FormerAppliedName), listed(t, v1alpha1.AppliedName))
	}
}

// A run of another set keeps what the former list has.
func TestCluster_Apply_FormerListOfOtherSets(t *testing.T) {
	c := formerCluster(t)
	before := listed(t, v1alpha1.FormerAppliedName)
	apply(t, c, NodeAgent, keySecret(t, 'a'))
	list := listed(t, v1alpha1.AppliedName)
	delete(list, "kube-system_ccmadm-node-agent__Secret")
	if diff := cmp.Diff(before, list); diff != "" {
		t.Errorf("list (-former +now):\n%s", diff)
	}
}

// Both exist where a run was cut short, or an older ccmadm has run since: what only one has is pruned all the same.
func TestCluster_Apply_BothLists(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	apply(t, c, Record, mustRecord(t))
	apply(t, c, NodeAgent, keySecret(t, 'a'))
	const role = "kube-system_ccmadm__record_rbac.authorization.k8s.io_Role"
	now, former := listed(t, v1alpha1.AppliedName), map[string]string{
		role: string(Record), "kube-system_ccmadm-node-agent__Secret": string(Record), // another set than now
		"kube-system_gone-before__ConfigMap": string(Record),
	}
	delete(now, role)
	list, err := configMaps().Get(t.Context(), v1alpha1.AppliedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list.Data = now
	if _, err := configMaps().Update(t.Context(), list, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager}); err != nil {
		t.Fatal(err)
	}
	asBefore(t, former)
	record := mustRecord(t)
	apply(t, c, Record, record[:1])
	if diff := cmp.Diff([]string{"kube-system_ccmadm-config__ConfigMap", "kube-system_ccmadm-node-agent__Secret"},
		slices.Sorted(maps.Keys(listed(t, v1alpha1.AppliedName)))); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if left := versions(t, record); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
	wantKey(t, 'a')
	if listed(t, v1alpha1.FormerAppliedName) != nil {
		t.Error("the former list is still there")
	}
}

func TestCluster_Remove_BothLists(t *testing.T) {
	c := formerCluster(t)
	apply(t, c, NodeAgent, keySecret(t, 'a'))
	asBefore(t, map[string]string{})
	changes, err := c.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantChanges(t, changesWith("deleted", listSubject, formerSubject, "ConfigMap/kube-system/ccmadm-config"), changes[len(changes)-3:])
	if left := versions(t, mustRecord(t)); len(left) != 0 || listed(t, v1alpha1.FormerAppliedName) != nil {
		t.Errorf("left are %v", left)
	}
}

// answersFormer is the cluster, but for requests of this method for the list under its former name.
func answersFormer(method string, code int, body string) *rest.Config {
	cfg := rest.CopyConfig(cluster.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method != method || !strings.HasSuffix(req.URL.Path, "/configmaps/"+v1alpha1.FormerAppliedName) {
				return next.RoundTrip(req)
			}
			return &http.Response{
				StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
				Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})
	})
	return cfg
}

func TestCluster_Apply_FormerListUnanswered(t *testing.T) {
	const forbidden = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
		"message": "not allowed", "code": 403}`
	conflict := strings.NewReplacer("Forbidden", "Conflict", "403", "409").Replace(forbidden)
	for _, tt := range []struct {
		name, method, body string
		code               int
		wantErr            string
		written            bool
	}{
		{
			name: "may not be read: nothing is written", method: http.MethodGet, code: http.StatusForbidden, body: forbidden,
			wantErr: "read " + formerSubject + ": not allowed",
		},
		{
			name: "may not be deleted: it stays, and the new one is there", method: http.MethodDelete, code: http.StatusForbidden, body: forbidden,
			wantErr: "delete " + formerSubject + ": not allowed", written: true,
		},
		{
			name: "is written meanwhile: the next run reads it", method: http.MethodDelete, code: http.StatusConflict, body: conflict,
			written: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			formerCluster(t)
			c, err := NewCluster(answersFormer(tt.method, tt.code, tt.body), false)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = c.Apply(ctx, Record, mustRecord(t))
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
			if len(listed(t, v1alpha1.FormerAppliedName)) != 5 {
				t.Error("the former list is gone")
			}
			if got := len(listed(t, v1alpha1.AppliedName)) == 5; got != tt.written {
				t.Errorf("the list is written: %t, want %t", got, tt.written)
			}
			apply(t, newCluster(t, cluster.Config, false), Record, mustRecord(t))
			if listed(t, v1alpha1.FormerAppliedName) != nil {
				t.Error("the former list is left by the next run")
			}
		})
	}
}
