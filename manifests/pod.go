package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
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
	pod.Name, pod.Namespace = v1alpha1.Component, v1alpha1.Namespace
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
	t.Labels = map[string]string{v1alpha1.ComponentLabel: v1alpha1.Component, "tier": "control-plane"}
	if v.ConfigHash != "" {
		t.Annotations = map[string]string{v1alpha1.HashAnnotation: v.ConfigHash}
	}
	if replaced := replacedProxies(v); len(replaced) > 0 {
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, v1alpha1.ReplacedProxiesAnnotation, strings.Join(replaced, "\n"))
	}
	if err := load("pod.yaml", &t.Spec); err != nil {
		return nil, err
	}
	if err := fillContainer(&t.Spec, p, v); err != nil {
		return nil, err
	}
	if v.Mode == templates.StaticPod {
		setUser(&t.Spec, 0)
		mount(&t.Spec, "kubeconfig", templates.Kubeconfig, hostPath(templates.Kubeconfig, corev1.HostPathFile))
	} else if err := schedule(&t.Spec, WorkloadName(p), v); err != nil {
		return nil, err
	}
	if len(v.Files) > 0 {
		mount(&t.Spec, "cloud-config", templates.ConfigDir, cloudConfigVolume(v.Mode))
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
	if v.Routes && !p.Has(templates.Routes) {
		errs = append(errs, fmt.Errorf("provider %s has no routes", p.Name))
	}
	if v.Routes && v.PodSubnet == "" {
		errs = append(errs, errors.New("routes need a pod subnet"))
	}
	return errors.Join(errs...)
}

// fillContainer is everything about the container that does not depend on who starts the pod.
func fillContainer(spec *corev1.PodSpec, p *templates.Profile, v templates.Values) (err error) {
	c := &spec.Containers[0]
	c.Command = p.Command
	if c.Args, err = args(p, v); err != nil {
		return err
	}
	if c.Image, err = p.ImageRef(v); err != nil {
		return err
	}
	setHealth(c, p.Health)
	for _, port := range p.Ports {
		c.Ports = append(c.Ports, corev1.ContainerPort{
			Name:          port.Name,
			ContainerPort: port.Port,
			Protocol:      corev1.ProtocolTCP,
		})
	}
	return setEnvironment(spec, p, p.Container, v)
}

// setHealth makes the probes ask where the program answers.
func setHealth(c *corev1.Container, h templates.Health) {
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe} {
		get := probe.HTTPGet
		get.Scheme = cmp.Or(corev1.URIScheme(h.Scheme), get.Scheme)
		get.Path = cmp.Or(h.Path, get.Path)
		if h.Port != 0 {
			get.Port = intstr.FromInt32(h.Port)
		}
	}
	c.Ports[0].ContainerPort = cmp.Or(h.Port, c.Ports[0].ContainerPort)
}

// setEnvironment adds what the profile and the machine say: variables, proxies, and directories of the machine.
// kubeadm gives the proxy settings of its own environment to the control plane's pods in the same way.
func setEnvironment(spec *corev1.PodSpec, p *templates.Profile, from templates.Container, v templates.Values) error {
	c := &spec.Containers[0]
	env, err := p.ExpandEnv(from, v, v1alpha1.CloudConfigName)
	if err != nil {
		return err
	}
	c.Env = append(c.Env, env...)
	for _, setting := range slices.Concat(v.Proxies, v.Env) {
		name, value, _ := strings.Cut(setting, "=")
		variable := corev1.EnvVar{Name: name, Value: value}
		if key, refers := config.CredentialOf(value); refers {
			variable.Value, variable.ValueFrom = "", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: v1alpha1.CloudConfigName}, Key: key,
			}}
		}
		setVariable(c, variable)
	}
	for i, m := range from.Mounts {
		mount(spec, fmt.Sprintf("machine-%d", i), m.Path, hostPath(m.Path, corev1.HostPathDirectoryOrCreate))
	}
	return nil
}

// setVariable replaces a variable of the same name: server-side apply takes no name twice.
func setVariable(c *corev1.Container, e corev1.EnvVar) {
	if i := slices.IndexFunc(c.Env, func(there corev1.EnvVar) bool { return there.Name == e.Name }); i >= 0 {
		c.Env[i] = e
		return
	}
	c.Env = append(c.Env, e)
}

// replacedProxies are the proxy settings of the machine that the user's replace, and the names of those that replace
// none. By its variables alone a pod would not tell them apart: the user's would be kept as the machine's.
func replacedProxies(v templates.Values) []string {
	var list []string
	for _, name := range templates.ProxyVariables() {
		of := func(setting string) bool { return setting == name || strings.HasPrefix(setting, name+"=") }
		if !slices.ContainsFunc(v.Env, of) {
			continue
		}
		if i := slices.IndexFunc(v.Proxies, of); i >= 0 {
			list = append(list, v.Proxies[i])
		} else {
			list = append(list, name)
		}
	}
	return list
}

// schedule adds what a pod needs that is placed by the scheduler and talks to the API server with a ServiceAccount.
func schedule(spec *corev1.PodSpec, account string, v templates.Values) error {
	if err := load("scheduled.yaml", spec); err != nil {
		return err
	}
	setUser(spec, nonRoot)
	spec.ServiceAccountName = account
	return reach(spec, v.Endpoint)
}

// reach leads a pod to the API server. The service VIP, which it takes where no endpoint is known, works only once
// kube-proxy does, or whatever replaces it: kubernetes/kubernetes#49017.
func reach(spec *corev1.PodSpec, endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("endpoint %q: want https://host:port", endpoint)
	}
	own := slices.Clone(spec.Containers[0].Env)
	spec.Containers[0].Env = append(spec.Containers[0].Env,
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: u.Hostname()},
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: cmp.Or(u.Port(), "443")})
	for _, e := range own { // the user may know another way
		setVariable(&spec.Containers[0], e)
	}
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
		return hostPath(templates.ConfigDir, corev1.HostPathDirectory)
	}
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName:  v1alpha1.CloudConfigName,
		DefaultMode: new(int32(0o440)),
	}}
}

func hostPath(path string, kind corev1.HostPathType) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

func mount(spec *corev1.PodSpec, name, path string, source corev1.VolumeSource) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true})
}
