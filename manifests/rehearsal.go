package manifests

import (
	"fmt"
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// RehearsalDenial is what the admission policy of a rehearsal says to whatever its pod would write.
const RehearsalDenial = "a rehearsal writes nothing"

// The keys of a rehearsal's Secret: the task, and before each of the provider's files.
const (
	taskKey    = "task.json"
	filePrefix = "file-"
)

// A RehearsalRun is one rehearsal in a pod.
type RehearsalRun struct {
	// Name is that of its namespace, and of each of its objects.
	Name string
	// Holder says for people who rehearses.
	Holder string
	// OwnImage has ccmadm as its entrypoint.
	OwnImage string
	// Task is what ccmadm is to do in the pod, credentials included.
	Task []byte
	// Files are the provider's configuration and credentials, by their names in the pod.
	Files map[string][]byte
	// Args are further ones of ccmadm in the pod.
	Args []string
	// Limit is after what time the kubelet ends the pod.
	Limit time.Duration
}

// Rehearsal returns what a rehearsal in a pod needs, in the order in which it is made: the namespace first, which owns
// the others, then what keeps the pod from writing, then what it may read. The pod itself is RehearsalPod.
func Rehearsal(p *templates.Profile, v templates.Values, r RehearsalRun) ([]*Object, error) {
	core, err := coreRules(p)
	if err != nil {
		return nil, fmt.Errorf("render the rehearsal: %w", err)
	}
	who := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: r.Name, Namespace: r.Name}
	list := []metav1.Object{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{
			// The machine's network is more than other levels of pod security have.
			Name: r.Name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"},
		}},
		r.lease(),
	}
	list = append(list, r.policy()...)
	list = append(list, grant(r.Name, reading(granted(slices.Concat(core, p.RBAC), p, v)), who)...)
	list = append(list,
		roleBinding(v1alpha1.Namespace, r.Name+"-authentication", "extension-apiserver-authentication-reader", who),
		&corev1.ServiceAccount{
			TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta:                   r.meta(),
			AutomountServiceAccountToken: new(false),
		},
		r.secret(),
	)
	objects, err := toObjects(list...)
	for _, o := range objects {
		label(o, r.Name)
	}
	return objects, err
}

func label(o *Object, name string) {
	labels := o.GetLabels()
	labels[v1alpha1.RehearsalLabel] = name
	o.SetLabels(labels)
}

// RehearsalUser is the pod's name for the API server.
func RehearsalUser(name string) string { return "system:serviceaccount:" + name + ":" + name }

func (r *RehearsalRun) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: r.Name, Namespace: r.Name}
}

// lease tells other rehearsals that this one is under way, as long as it is renewed.
func (r *RehearsalRun) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: r.meta(),
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &r.Holder},
	}
}

func (r *RehearsalRun) secret() *corev1.Secret {
	data := map[string][]byte{taskKey: r.Task}
	for name, content := range r.Files {
		data[filePrefix+name] = content
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: r.meta(),
		Immutable: new(true), Type: corev1.SecretTypeOpaque, Data: data,
	}
}

// reading are rules without what writes. Leases are not read either: a rehearsal has its own.
func reading(rules []templates.Rule) []templates.Rule {
	var list []templates.Rule
	for _, rule := range rules {
		rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool {
			return verb != "get" && verb != "list" && verb != "watch"
		})
		if len(rule.Verbs) > 0 && !slices.Contains(rule.Resources, "leases") {
			list = append(list, rule)
		}
	}
	return list
}

// policy is the second lock: whatever permissions the pod's ServiceAccount gets from elsewhere, it writes nothing. That
// of other users is no concern of it, and costs them one comparison.
func (r *RehearsalRun) policy() []metav1.Object {
	return admissionPolicy(r.Name, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
			onResources("*", "*", []string{"*/*"}, admissionv1.OperationAll),
		}},
		MatchConditions: []admissionv1.MatchCondition{{
			Name: "rehearsal", Expression: fmt.Sprintf("request.userInfo.username == %q", RehearsalUser(r.Name)),
		}},
		Validations: []admissionv1.Validation{{
			Expression: "false", Message: RehearsalDenial, Reason: new(metav1.StatusReasonForbidden),
		}},
	})
}

// RehearsalPod returns the pod, in which ccmadm runs the provider's program. It is no Job: a second attempt would ask
// the cloud all over again, and the run that waits for the report sees the pod itself.
func RehearsalPod(p *templates.Profile, v templates.Values, r RehearsalRun) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: r.meta()}
	pod.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	pod.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager, v1alpha1.RehearsalLabel: r.Name}
	spec := &pod.Spec
	for _, file := range []string{"rehearsal.yaml", "scheduled.yaml"} {
		if err := load(file, spec); err != nil {
			return nil, fmt.Errorf("render the rehearsal: %w", err)
		}
	}
	setUser(spec, nonRoot)
	spec.ServiceAccountName, spec.AutomountServiceAccountToken = r.Name, new(false)
	spec.ActiveDeadlineSeconds = new(int64(r.Limit.Seconds()))
	spec.InitContainers[0].Image = r.OwnImage
	c := &spec.Containers[0]
	var err error
	if c.Image, err = p.ImageRef(v); err != nil {
		return nil, fmt.Errorf("render the rehearsal: %w", err)
	}
	c.Command = append(c.Command, r.Args...)
	for _, e := range p.Env {
		if e.Field != "" { // the others are in the task
			from := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: e.Field}}
			c.Env = append(c.Env, corev1.EnvVar{Name: e.Name, ValueFrom: from})
			c.Command = append(c.Command, "--env="+e.Name)
		}
	}
	for i, m := range p.Mounts {
		mount(spec, fmt.Sprintf("machine-%d", i), m.Path, hostPath(m.Path, corev1.HostPathDirectory))
	}
	keys := []corev1.KeyToPath{{Key: taskKey, Path: taskKey}}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "task", VolumeSource: r.secretVolume(keys)})
	keys = nil
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		keys = append(keys, corev1.KeyToPath{Key: filePrefix + name, Path: name})
	}
	if len(keys) > 0 {
		mount(spec, "cloud-config", templates.ConfigDir, r.secretVolume(keys))
	}
	return pod, nil
}

func (r *RehearsalRun) secretVolume(keys []corev1.KeyToPath) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: r.Name, Items: keys, DefaultMode: new(int32(0o440)),
	}}
}
