package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

const (
	// mostEvents are kept, the last ones; scannedEvents are looked at.
	mostEvents, scannedEvents = 1000, 20_000
)

// Judged adds what the doctor saw and what it found.
func (b *Bundle) Judged(s *diagnosis.Snapshot, d *diagnosis.Diagnosis) {
	b.Object(snapshotFile, s)
	b.Object("diagnosis.json", d)
	var text strings.Builder
	if err := d.WriteText(&text, false); err != nil {
		b.Missed("diagnosis.txt", err)
	}
	b.Text("diagnosis.txt", text.String())
	for i := range s.NotSeen {
		b.Missed(s.NotSeen[i].What, &s.NotSeen[i])
	}
	for i := range s.Deployments {
		b.Object("cluster/deployments/"+s.Deployments[i].Namespace+"/"+s.Deployments[i].Name+".yaml", &s.Deployments[i])
	}
	for i := range s.DaemonSets {
		b.Object("cluster/daemonsets/"+s.DaemonSets[i].Namespace+"/"+s.DaemonSets[i].Name+".yaml", &s.DaemonSets[i])
	}
	for i := range s.Pods {
		b.Object("cluster/pods/"+s.Pods[i].Namespace+"/"+s.Pods[i].Name+".yaml", &s.Pods[i])
	}
}

// Cluster asks the API server for what the doctor does not: configurations as they are, all Events of kube-system, and
// longer logs. What it may not see is said.
func (b *Bundle) Cluster(ctx context.Context, c kubernetes.Interface, s *diagnosis.Snapshot) {
	var wg sync.WaitGroup
	for _, name := range []string{"kubeadm-config", "kubelet-config", v1alpha1.RecordName} {
		wg.Go(func() {
			cm, err := c.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				b.Missed("configmap "+name, err)
				return
			}
			cm.Kind = "ConfigMap"
			b.Object("cluster/configmaps/"+name+".yaml", cm)
		})
	}
	wg.Go(func() { b.events(ctx, c) })
	wg.Go(func() { b.logs(ctx, c, append(slices.Clone(s.Pods), b.agents(ctx, c)...)) })
	wg.Wait()
}

// events keeps the last ones: an API server lists them by name.
func (b *Bundle) events(ctx context.Context, c kubernetes.Interface) {
	const what = "all events in kube-system"
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().Events(v1alpha1.Namespace).List(ctx, o)
	})
	var list []corev1.Event
	seen := 0
	err := p.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if seen++; seen > scannedEvents {
			return fmt.Errorf("there are more than %d", scannedEvents)
		}
		if e, ok := object.(*corev1.Event); ok {
			list = append(list, *e)
		}
		return nil
	})
	if err != nil {
		b.Missed(what, err)
	}
	slices.SortStableFunc(list, func(x, y corev1.Event) int { return at(&x).Compare(at(&y)) })
	if len(list) > mostEvents {
		b.Missed(what, fmt.Errorf("%d, all but the last %d", len(list)-mostEvents, mostEvents))
		list = list[len(list)-mostEvents:]
	}
	var text strings.Builder
	for _, e := range list {
		fmt.Fprintf(&text, "%s %s %s %s/%s x%d: %s\n", at(&e).UTC().Format(time.RFC3339), e.Type, e.Reason,
			e.InvolvedObject.Kind, e.InvolvedObject.Name, max(1, e.Count), strings.ReplaceAll(redact.Text(e.Message), "\n", " ")) // a value on a line below its name has none then
	}
	b.Text("cluster/events-kube-system.txt", text.String())
}

func at(e *corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

// agents are the pods of the node agent, those first that are not well.
func (b *Bundle) agents(ctx context.Context, c kubernetes.Interface) []corev1.Pod {
	selector := metav1.ListOptions{LabelSelector: v1alpha1.NameLabel + "=" + v1alpha1.AgentName, Limit: 5000}
	list, err := c.CoreV1().Pods(v1alpha1.Namespace).List(ctx, selector)
	if err != nil {
		b.Missed("pods of the node agent", err)
		return nil
	}
	slices.SortStableFunc(list.Items, func(x, y corev1.Pod) int { return trouble(&y) - trouble(&x) })
	return list.Items
}

// trouble grows with how often a pod was started again.
func trouble(p *corev1.Pod) int {
	n := 0
	for _, s := range containers(p) {
		n += int(s.RestartCount)
		if !s.Ready {
			n += 1000
		}
	}
	return n
}
