package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/templates"
)

// The user of pods that need nothing of the machine. Static pods are root without any capability: their kubeconfig is
// root's alone, as all of kubeadm's are.
const nonRoot = 65532

// StaticPod returns the manifest that a kubelet runs by itself. It refers to no object of the API, since kubelets from
// 1.34 on refuse a static pod that does.
func StaticPod(p *templates.Profile, v templates.Values) ([]byte, error) {
	v.Mode = templates.StaticPod
	template, err := podTemplate(p, v)
	if err != nil {
		return nil, fmt.Errorf("render static pod: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Name, pod.Namespace = component, Namespace
	o, err := toObject(pod)
	if err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("encode static pod: %w", err)
	}
	return data, nil
}

func podTemplate(p *templates.Profile, v templates.Values) (*corev1.PodTemplateSpec, error) {
	if err := check(p, v); err != nil {
		return nil, err
	}
	t := &corev1.PodTemplateSpec{}
	t.Labels = map[string]string{componentLabel: component, "tier": "control-plane"}
	if v.ConfigHash != "" {
		t.Annotations = map[string]string{hashAnnotation: v.ConfigHash}
	}
	if err := load("pod.yaml", &t.Spec); err != nil {
		return nil, err
	}
	if err := fillContainer(&t.Spec.Containers[0], p, v); err != nil {
		return nil, err
	}
	if v.Mode == templates.StaticPod {
		setUser(&t.Spec, 0)
		mount(&t.Spec, "kubeconfig", Kubeconfig, hostPath(Kubeconfig, corev1.HostPathFile))
	} else if err := schedule(&t.Spec, p, v); err != nil {
		return nil, err
	}
	if v.CloudConfig || v.Credentials {
		mount(&t.Spec, "cloud-config", CloudConfigDir, cloudConfigVolume(v.Mode))
	}
	return t, nil
}

// check finds all contradictions between a profile and its values.
func check(p *templates.Profile, v templates.Values) error {
	var errs []error
	if !p.Supports(v.Mode) {
		errs = append(errs, fmt.Errorf("provider %s: mode %q is not among %v", p.Name, v.Mode, p.Modes))
	}
	if v.ClusterName == "" {
		errs = append(errs, errors.New("cluster name is empty"))
	}
	if v.Routes && !p.Routes {
		errs = append(errs, fmt.Errorf("provider %s has no routes", p.Name))
	}
	if v.Routes && v.PodSubnet == "" {
		errs = append(errs, errors.New("routes need a pod subnet"))
	}
	return errors.Join(errs...)
}

func fillContainer(c *corev1.Container, p *templates.Profile, v templates.Values) (err error) {
	c.Command = p.Command
	if c.Args, err = args(p, v); err != nil {
		return err
	}
	c.Image, err = p.ImageRef(v)
	return err
}

// schedule adds what a pod needs that is placed by the scheduler and talks to the API server with a ServiceAccount.
func schedule(spec *corev1.PodSpec, p *templates.Profile, v templates.Values) error {
	if err := load("scheduled.yaml", spec); err != nil {
		return err
	}
	setUser(spec, nonRoot)
	spec.ServiceAccountName = workloadName(p)
	// The service VIP works only once kube-proxy does, or whatever replaces it: kubernetes/kubernetes#49017.
	u, err := url.Parse(v.Endpoint)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("endpoint %q: want https://host:port", v.Endpoint)
	}
	spec.Containers[0].Env = append(spec.Containers[0].Env,
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: u.Hostname()},
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: cmp.Or(u.Port(), "443")})
	return nil
}

func setUser(spec *corev1.PodSpec, id int64) {
	spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsGroup = new(id), new(id)
	spec.SecurityContext.RunAsNonRoot = new(id != 0)
	if id != 0 {
		spec.SecurityContext.FSGroup = new(id) // so that it can read its Secret
	}
}

func cloudConfigVolume(mode templates.Mode) corev1.VolumeSource {
	if mode == templates.StaticPod {
		return hostPath(CloudConfigDir, corev1.HostPathDirectory)
	}
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: CloudConfigName, DefaultMode: new(int32(0o440))}}
}

func hostPath(path string, kind corev1.HostPathType) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

func mount(spec *corev1.PodSpec, name, path string, source corev1.VolumeSource) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true})
}
