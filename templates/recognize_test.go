package templates

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
