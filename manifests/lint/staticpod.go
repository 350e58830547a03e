package lint

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Reference is a field of a static pod's spec that names an object of the API, and what it is in words.
type Reference struct {
	Path []string
	What string
}

// References finds what kubelets of 1.34 and newer refuse in a static pod, as HasAPIObjectReference of k8s.io/kubernetes/pkg/api/pod
// does. Secrets of volumes whose plug-ins have left Kubernetes are not looked for.
func References(pod *corev1.PodSpec) []Reference {
	var list []Reference
	add := func(what string, path ...string) { list = append(list, Reference{path, what}) }
	if pod.ServiceAccountName != "" {
		add("the static pod names a ServiceAccount", "serviceAccountName")
	} else if pod.DeprecatedServiceAccount != "" {
		add("the static pod names a ServiceAccount", "serviceAccount")
	}
	if len(pod.ImagePullSecrets) > 0 {
		add("the static pod names a Secret for its images", "imagePullSecrets")
	}
	if len(pod.ResourceClaims) > 0 {
		add("the static pod names a ResourceClaim", "resourceClaims")
	}
	for i := range pod.Volumes {
		if v := &pod.Volumes[i]; ofAPI(&v.VolumeSource) {
			add("volume "+v.Name+" of the static pod is an object of the API", "volumes", strconv.Itoa(i))
		}
	}
	for i := range pod.InitContainers {
		ofContainer(&pod.InitContainers[i], add, "initContainers", strconv.Itoa(i))
	}
	for i := range pod.Containers {
		ofContainer(&pod.Containers[i], add, "containers", strconv.Itoa(i))
	}
	return list
}

func ofContainer(c *corev1.Container, add func(what string, path ...string), path ...string) {
	for i, e := range c.Env {
		if e.ValueFrom != nil && (e.ValueFrom.SecretKeyRef != nil || e.ValueFrom.ConfigMapKeyRef != nil) {
			add("variable "+e.Name+" of the static pod is from an object of the API", append(path, "env", strconv.Itoa(i))...)
		}
	}
	if len(c.EnvFrom) > 0 {
		add("variables of the static pod are from objects of the API", append(path, "envFrom")...)
	}
}

// ofAPI tells whether a kubelet asks the API server for what a volume has.
func ofAPI(v *corev1.VolumeSource) bool {
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.DownwardAPI == nil {
				return true
			}
		}
	}
	return v.Secret != nil || v.ConfigMap != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil ||
		v.AzureFile != nil || v.Glusterfs != nil || v.ISCSI != nil && v.ISCSI.SecretRef != nil || v.FlexVolume != nil && v.FlexVolume.SecretRef != nil
}

func staticPod(w *workload) []problem {
	if !w.static {
		return nil
	}
	var problems []problem
	for _, r := range References(&w.pod) {
		problems = append(problems, w.problem(w.at(w.in(r.Path...)...), r.What, nil)...)
	}
	return problems
}
