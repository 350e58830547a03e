package record

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// proxySettings are those of this machine's environment, under the names that kubeadm passes on to its own pods.
func proxySettings(env func(string) string) []string {
	var list []string
	for _, name := range templates.ProxyVariables() {
		if value := env(name); value != "" {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// proxies are those of the manager that runs, once this machine's Node has come through with it: whoever runs ccmadm
// again may have others.
func proxies(ctx context.Context, r *workflow.Run, s *settings.Settings) ([]string, error) {
	if s.Recorded == nil || r.Role != kubeadm.RoleInit || r.WithoutServer && !r.Existing {
		return proxySettings(r.Getenv), nil
	}
	if lives, err := Established(ctx, r); err != nil || !lives {
		return proxySettings(r.Getenv), err
	}
	return existingProxies(ctx, r, s)
}

// existingProxies are those of the manager that runs, here or, as a static pod, on another control plane: a change of
// mode comes to one after the other. Where none is found, the environment says, as on the first day.
func existingProxies(ctx context.Context, r *workflow.Run, s *settings.Settings) ([]string, error) {
	pod, err := RunningPod(ctx, r.Env, s)
	if err == nil && pod == nil {
		pod, err = elsewherePod(ctx, r.Env)
	}
	if err == nil && pod == nil && !r.Operation.ManagerMayBeAway() && s.Recorded.Configuration.Mode != config.ModeManual {
		r.Sayf("there is no cloud-controller-manager whose proxy variables would hold: this shell's do")
	}
	if err != nil || pod == nil || len(pod.Spec.Containers) == 0 {
		return proxySettings(r.Getenv), err
	}
	return proxySettings(proxiesOf(pod.ObjectMeta, pod.Spec, s.Recorded.Configuration.ControllerManager.ExtraEnv)), nil
}

// elsewherePod is the static pod of any other control plane; nil: none is there.
func elsewherePod(ctx context.Context, env *workflow.Env) (*corev1.PodTemplateSpec, error) {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	pods, err := StaticPods(ctx, client)
	if err != nil {
		return nil, finding.Refusedf("look for proxy settings: %w", err).WithHint("nothing was changed")
	}
	if len(pods) == 0 {
		return nil, nil
	}
	return &corev1.PodTemplateSpec{ObjectMeta: pods[0].ObjectMeta, Spec: pods[0].Spec}, nil
}

// proxiesOf gives the proxy variables that a pod has from a machine's environment. Those of extraEnv are the user's:
// the pod says what they replace, and one of before it did goes by the recorded ones.
func proxiesOf(meta metav1.ObjectMeta, spec corev1.PodSpec, recorded []string) func(string) string {
	replaced := strings.Split(meta.Annotations[v1alpha1.ReplacedProxiesAnnotation], "\n")
	return func(name string) string {
		of := func(setting string) bool { return setting == name || strings.HasPrefix(setting, name+"=") }
		env := templates.OwnContainer(&spec, v1alpha1.Component).Env
		at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
		switch i := slices.IndexFunc(replaced, of); {
		case i >= 0:
			return strings.TrimPrefix(strings.TrimPrefix(replaced[i], name), "=")
		case at < 0 || slices.ContainsFunc(recorded, of):
			return ""
		}
		return env[at].Value
	}
}

// SameEnv tells whether containers of two machines have the same variables, but for what each has from its own
// environment. What a variable refers to is not compared: an API server adds to that.
func SameEnv(a, b *corev1.Pod) bool {
	return slices.Equal(clusterEnv(a), clusterEnv(b))
}

func clusterEnv(pod *corev1.Pod) []string {
	own := proxiesOf(pod.ObjectMeta, pod.Spec, nil)
	var list []string
	for _, e := range templates.OwnContainer(&pod.Spec, v1alpha1.Component).Env {
		proxy := slices.Contains(templates.ProxyVariables(), e.Name)
		if !proxy || own(e.Name) != e.Value {
			list = append(list, e.Name+"="+e.Value)
		}
	}
	slices.Sort(list) // a variable takes the place of the one that it replaces
	return list
}
