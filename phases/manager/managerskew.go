package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// refuseNewerManager keeps a manager from coming to a release that is newer than an API server that it asks: while an
// upgrade is under way, the record has the release of the control planes that are done. What runs already is no reason
// to refuse another change. An upgrade has its own order, which counts the API server that it is about to bring.
func refuseNewerManager(ctx context.Context, r *workflow.Run, s *settings.Settings, v templates.Values) error {
	if r.Operation.Manager().Ordered {
		return nil
	}
	then, err := s.Profile.ImageRef(v)
	if err != nil {
		return err
	}
	if !planner.Knows(s.Profile, then) {
		return nil // no answer would make a difference
	}
	now, err := runningImage(ctx, r.Env, s)
	// Another mode asks other servers.
	same := now == then && (s.Recorded == nil || s.Recorded.Configuration.Mode == s.Mode)
	if err != nil || same || now == "" && !r.Existing { // a machine's first day
		return err
	}
	servers, err := serversAsked(ctx, r.Host, s)
	if err != nil {
		return err
	}
	for _, node := range slices.Sorted(maps.Keys(servers)) {
		serves, newer := planner.Newer(s.Profile, then, servers[node])
		if !newer {
			continue
		}
		return finding.Refusedf("%s: run %s, which is for Kubernetes %s: newer than the API server of Node/%s, v%s",
			finding.ManagerSkew, then, serves, node, servers[node]).
			WithHint("`ccmadm upgrade node` on %s upgrades its control plane, and the cloud-controller-manager with it or "+
				"after the last one. Nothing was changed", node)
	}
	return nil
}

// runningImage is the manager's; empty: none runs, or in a cluster that is being made it is not looked for.
func runningImage(ctx context.Context, env *workflow.Env, s *settings.Settings) (string, error) {
	if env.Existing && s.Recorded != nil {
		pod, err := record.RunningPod(ctx, env, s)
		if err != nil || pod == nil || len(pod.Spec.Containers) == 0 {
			return "", err
		}
		return templates.OwnContainer(&pod.Spec, v1alpha1.Component).Image, nil
	}
	pod, err := record.ReadStaticPod(env.Machine, machine.CCMManifest)
	if err != nil || pod == nil || len(pod.Spec.Containers) == 0 {
		return "", nil //nolint:nilerr // what is no pod runs nowhere, and --force replaces it
	}
	return templates.OwnContainer(&pod.Spec, v1alpha1.Component).Image, nil
}

// serversAsked are the versions of the API servers that the manager may ask, by Node: a static pod that goes by this
// machine's address asks no other. One whose version is not seen is left out.
func serversAsked(ctx context.Context, h *workflow.Host, s *settings.Settings) (map[string]*version.Version, error) {
	if s.Mode == config.ModeStaticPod && AsksOwnServer(h.Machine) {
		pod, err := record.ReadStaticPod(h.Machine, machine.APIServerPod)
		if err != nil || pod == nil || VersionOf(pod, planner.APIServer) == nil {
			return nil, err
		}
		node, err := workflow.NodeName(h)
		return map[string]*version.Version{node: VersionOf(pod, planner.APIServer)}, err
	}
	client, err := workflow.Connect(h.Env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	var servers map[string]*version.Version
	err = journal.Ask(ctx, func(ctx context.Context) (err error) { // it may be restarting, as in each phase beside this
		servers, err = liveServers(ctx, client)
		return err
	})
	if err != nil {
		return nil, finding.Refusedf("compare the manager with the API servers: %w", err).
			WithHint("run the same command again when the API server answers")
	}
	return servers, nil
}

// liveServers are the versions of API servers by their static pods. A worker's kubelet may show any pod as its own.
func liveServers(ctx context.Context, client kubernetes.Interface) (map[string]*version.Version, error) {
	names, err := record.ControlPlaneNames(ctx, client)
	if err != nil {
		return nil, err
	}
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.ComponentLabel: string(planner.APIServer), "tier": "control-plane",
	}})
	pods, err := client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of API servers: %w", err)
	}
	servers := map[string]*version.Version{}
	for i := range pods.Items {
		if v := VersionOf(&pods.Items[i], planner.APIServer); v != nil && slices.Contains(names, pods.Items[i].Spec.NodeName) {
			servers[pods.Items[i].Spec.NodeName] = v
		}
	}
	return servers, nil
}

// VersionOf is that of the image of a static pod's component; nil: its tag is none.
func VersionOf(pod *corev1.Pod, component planner.Component) *version.Version {
	c := templates.OwnContainer(&pod.Spec, string(component))
	if c == nil {
		return nil
	}
	v, err := version.ParseSemantic(settings.TagOf(c.Image))
	if err != nil {
		return nil
	}
	return v
}
