package diagnosis

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
)

// inventory asks what the provider onprem says of its list of machines.
func (l *looking) inventory(ctx context.Context, c kubernetes.Interface) {
	l.ask(partInventory, func() (func(), error) {
		good, err := c.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, v1alpha1.LastGoodMachinesName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return func() { l.snapshot.Inventory = redact.Text(good.Annotations[v1alpha1.MachinesStateAnnotation]) }, nil
	})
}

// rejectedReading finds a list of machines of which the latest reading did not become the one in use. The leader notes
// that on the last good one and tells it in an Event: the note alone may be of a manager that read another list.
func rejectedReading(v *view) []finding.Finding {
	why, stale := strings.CutPrefix(v.Inventory, v1alpha1.MachinesStale)
	m := v.main()
	if !stale || m == nil || !v.leads() || !v.toldOfReading(m) {
		return nil
	}
	f := finding.ReadingRejected.New("ConfigMap/"+v1alpha1.Namespace+"/"+v1alpha1.LastGoodMachinesName,
		"the last good inventory stays in use: "+why)
	f.Next = v.rereading(m, why)
	return []finding.Finding{f}
}

// toldOfReading reports whether an Event tells of a rejected reading, by a manager that runs since before.
func (v *view) toldOfReading(m *manager) bool {
	var since time.Time
	for _, p := range m.pods {
		for _, s := range p.Status.ContainerStatuses {
			if running := s.State.Running; running != nil && running.StartedAt.After(since) {
				since = running.StartedAt.Time
			}
		}
	}
	reason := finding.ReadingRejected.Kind().Reason
	for _, e := range v.Events {
		about := e.InvolvedObject.Name == v1alpha1.LastGoodMachinesName && e.Reason == reason
		if last := nodes.LastSeen(&e); about && v.since(last) < nodes.RecentEvent && !last.Before(since) {
			return true
		}
	}
	return false
}

// What a provider says of a source that it cannot read. Names have no letter that a shell knows.
var (
	fileDenied = regexp.MustCompile(`\b(?:open|stat) (/[\w./-]+): permission denied`)
	fileGone   = regexp.MustCompile(`\b(?:open|stat) (/[\w./-]+): no such file or directory`)
	mapGone    = regexp.MustCompile(`\bconfigmaps \\*"([\w.-]+)\\*" not found`)
	unanswered = regexp.MustCompile(`\bget (https://[\w./:-]+): `)
)

// rereading says what makes a list of machines readable again.
func (v *view) rereading(m *manager, why string) string {
	lastGood := "kubectl -n " + v1alpha1.Namespace + " get configmap " + v1alpha1.LastGoodMachinesName +
		` -o jsonpath='{.binaryData.` + strings.ReplaceAll(v1alpha1.LastGoodMachinesKey, ".", `\.`) + `}' | base64 -d | gunzip`
	if found := fileDenied.FindStringSubmatch(why); found != nil {
		node, file := v.onMachine(m, found[1])
		if user := m.user(); node != "" && user != nil {
			return fmt.Sprintf("on %s: chown %d %s && chmod u+r %[3]s", node, *user, file)
		}
	}
	if found := fileGone.FindStringSubmatch(why); found != nil && v.Inventory != "" {
		if node, file := v.onMachine(m, found[1]); node != "" {
			return "on " + node + ": " + lastGood + " > " + file
		}
	}
	if found := mapGone.FindStringSubmatch(why); found != nil && v.Inventory != "" {
		return fmt.Sprintf("%s | kubectl -n %s create configmap %s --from-file=%s=/dev/stdin "+
			"--dry-run=client -o yaml | kubectl apply --server-side --field-manager=%s -f -",
			lastGood, v1alpha1.Namespace, found[1], v1alpha1.MachinesKey, v1alpha1.FieldManager)
	}
	if machine := v.controlPlane(); strings.Contains(why, "is forbidden: User") && v.Provider != "" && machine != "" {
		return "on " + machine + ": ccmadm apply --force"
	}
	if found := unanswered.FindStringSubmatch(why); found != nil {
		return "nothing, once its server answers; to see its response: curl -sSi " + found[1]
	}
	return "correct the list where it is kept, and before it is used: ccmadm machines check -f FILE"
}

// onMachine finds a file of the leader's container on its machine. The node is empty where it is no file of one.
func (v *view) onMachine(m *manager, file string) (node, name string) {
	p := v.leader(m)
	if p == nil {
		return "", ""
	}
	file = path.Clean(file)
	var volume corev1.VolumeMount
	for _, mount := range m.pod.Containers[m.Container].VolumeMounts {
		inside := file == mount.MountPath || strings.HasPrefix(file, mount.MountPath+"/")
		if inside && mount.SubPath == "" && len(mount.MountPath) > len(volume.MountPath) {
			volume = mount
		}
	}
	for _, source := range m.pod.Volumes {
		if source.Name == volume.Name && source.HostPath != nil && machine.ShellQuote(source.HostPath.Path) == source.HostPath.Path {
			return p.Spec.NodeName, source.HostPath.Path + strings.TrimPrefix(file, volume.MountPath)
		}
	}
	return "", ""
}

// user is the number of the user that the manager's container runs as. Nil: the image says that.
func (m *manager) user() *int64 {
	if c := m.pod.Containers[m.Container].SecurityContext; c != nil && c.RunAsUser != nil {
		return c.RunAsUser
	}
	if c := m.pod.SecurityContext; c != nil {
		return c.RunAsUser
	}
	return nil
}

// providerIDTwice finds Nodes that a manager takes for one machine. What belongs to none is the one that is not Ready, or that came later.
func providerIDTwice(s *Snapshot) []finding.Finding {
	first := map[string]*corev1.Node{}
	var list []finding.Finding
	for i := range s.Nodes {
		n := &s.Nodes[i]
		id := n.Spec.ProviderID
		other := first[id]
		if id == "" || other == nil {
			first[id] = n
			continue
		}
		wrong, right := n, other
		if ready, otherReady := nodestatus.IsReady(n), nodestatus.IsReady(other); ready && !otherReady ||
			ready == otherReady && n.CreationTimestamp.Before(&other.CreationTimestamp) {
			wrong, right = other, n
		}
		f := finding.ProviderIDTwice.New("Node/"+wrong.Name, "its provider ID is "+id+", which is Node "+right.Name+"'s, too")
		f.Next = "kubectl get nodes -o custom-columns=NODE:.metadata.name,ID:.spec.providerID; then, " +
			"of the Node whose machine it is not: kubectl delete node NAME"
		list = append(list, f)
	}
	return list
}

// addressTwice finds Nodes that are Ready and have one address, as where the first link of each machine is a NAT of its own (Vagrant, VirtualBox)
// or a bridge. API servers, and pods of other Nodes, reach one of them at most. One that is not Ready may have left the address to another.
func addressTwice(s *Snapshot) []finding.Finding {
	owners := map[netip.Addr][]*corev1.Node{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if all := nodestatus.InternalIPs(n); len(all) > 0 && nodestatus.IsReady(n) && !nodes.IsVirtual(n) {
			owners[all[0]] = append(owners[all[0]], n)
		}
	}
	var list []finding.Finding
	for _, address := range slices.SortedFunc(maps.Keys(owners), netip.Addr.Compare) {
		for _, n := range owners[address] {
			if len(owners[address]) > 1 {
				f := finding.AddressTwice.New("Node/"+n.Name, fmt.Sprintf("%d Nodes have the InternalIP %s", len(owners[address]), address))
				f.Next = "on " + n.Name + ": ip -brief address show"
				list = append(list, f)
			}
		}
	}
	return list
}
