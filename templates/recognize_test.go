package templates

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestOwnContainer(t *testing.T) {
	of := func(names ...string) *corev1.PodSpec {
		var pod corev1.PodSpec
		for _, name := range names {
			pod.Containers = append(pod.Containers, corev1.Container{Name: name})
		}
		return &pod
	}
	for want, pod := range map[string]*corev1.PodSpec{"etcd": of("sidecar", "etcd"), "other": of("other", "sidecar")} {
		if got := OwnContainer(pod, "etcd"); got.Name != want {
			t.Errorf("got container %s, want %s", got.Name, want)
		}
	}
	if got := OwnContainer(of(), "etcd"); got != nil {
		t.Errorf("got container %s of none", got.Name)
	}
}

func TestRecognize_OneContainer(t *testing.T) {
	for want, list := range map[bool][]corev1.Container{
		true: {
			{Image: "vendor/ccm:1", Args: []string{"--cloud-provider=aws"}},
			{Image: "vendor/x:1", Command: []string{"/bin/aws-cloud-controller-manager"}},
		},
		false: {
			{Image: "autoscaling/cluster-autoscaler:v1.36.0", Command: []string{"./cluster-autoscaler", "--cloud-provider=aws"}},
			{Image: "x", Command: []string{"kube-controller-manager", "--cloud-provider=aws"}},
			{Image: "x", Args: []string{"--cloud-provider=external"}},
		},
	} {
		for _, c := range list {
			if _, got := Known().Recognize("", []corev1.Container{c}); got != want {
				t.Errorf("%s %v %v: %v", c.Image, c.Command, c.Args, got)
			}
		}
	}
}
