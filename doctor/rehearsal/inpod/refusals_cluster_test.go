package inpod

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
)

// waiting is what a kubelet says of a container that it cannot start.
func waiting(init bool, reason, message string) func(*corev1.Pod) corev1.PodStatus {
	list := []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}}
	return func(*corev1.Pod) corev1.PodStatus {
		if init {
			return corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: list}
		}
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: list}
	}
}

// failing is a pod that does not come to its report.
type failing struct {
	name string
	k    kubelet
	want string
	code finding.ExitCode
}

func failures() []failing {
	says := func(text string) func(context.Context, io.Writer, *corev1.Pod) {
		return func(_ context.Context, w io.Writer, _ *corev1.Pod) { _, _ = io.WriteString(w, text) }
	}
	ended := func(*corev1.Pod) corev1.PodStatus {
		c := corev1.ContainerStatus{Name: "ccmadm", Image: "registry.example/ccmadm:v1"}
		c.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}
		return corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{c}}
	}
	crowded := func(*corev1.Pod) corev1.PodStatus {
		no := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "Insufficient cpu"}
		no.Reason = corev1.PodReasonUnschedulable
		return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{no}}
	}
	late := func(*corev1.Pod) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "too long"}
	}
	return []failing{
		{
			"the provider's image",
			kubelet{status: waiting(false, "ImagePullBackOff", "no such host")},
			"its image cannot be pulled: ImagePullBackOff: no such host", finding.ExitError,
		},
		{
			"ccmadm's image",
			kubelet{status: waiting(true, "ErrImageNeverPull", "not present")},
			"its image cannot be pulled: ErrImageNeverPull: not present", finding.ExitError,
		},
		{
			"a container that cannot be made",
			kubelet{status: waiting(false, "CreateContainerConfigError", "no user")},
			"its container cannot be started: CreateContainerConfigError: no user", finding.ExitError,
		},
		{"no room", kubelet{status: crowded}, "the pod cannot be scheduled: Insufficient cpu", finding.ExitRefused},
		{
			"ccmadm of another version",
			kubelet{status: ended},
			"as Failed; container ccmadm of registry.example/ccmadm:v1: exit status 2, Error", finding.ExitError,
		},
		{
			"an end without a report",
			kubelet{status: late, log: says(`{"progress":"pass 1"}` + "\npanic: x\n")},
			"it ended as Failed DeadlineExceeded too long: " + rehearsal.ErrCut.Error() + "; its last line: panic: x",
			finding.ExitError,
		},
		{
			"a log that cannot be read", kubelet{status: running}, "the log cannot be read", finding.ExitError,
		},
		{
			"an error in the pod",
			kubelet{status: running, log: says(`{"end":{"nodes":0,"error":"list nodes: forbidden"}}` + "\n")},
			"list nodes: forbidden", 0,
		},
	}
}

// TestCluster_PodFails: what the scheduler and the kubelet say ends it at once, with their words, and nothing stays.
func TestCluster_PodFails(t *testing.T) {
	for _, tc := range failures() {
		t.Run(tc.name, func(t *testing.T) {
			tc.k.start(t)
			start := time.Now()
			_, err := Run(t.Context(), options(t, "/bin/ccm"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			var known *finding.Error
			if tc.code != 0 && (!errors.As(err, &known) || known.Code != tc.code || known.Hint == "") {
				t.Errorf("got %#v, want exit status %d and a hint", known, tc.code)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %s", took)
			}
			if names := left(t); len(names) > 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// TestCluster_Refused: what can be known before is said before anything is made.
func TestCluster_Refused(t *testing.T) {
	reader, err := plane.User("reader")
	if err != nil {
		t.Fatal(err)
	}
	unreachable := rest.CopyConfig(plane.Config)
	unreachable.Host = "https://127.0.0.1:1"
	noImage := options(t, "/bin/ccm")
	noImage.Values.Image = ""
	refused := func(name string, o Options, want string, code finding.ExitCode) {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), o)
			var known *finding.Error
			has := errors.As(err, &known)
			if err == nil || !strings.Contains(err.Error(), want) || has != (code != 0) || has && known.Code != code {
				t.Errorf("got %v, want %s and exit status %d", err, want, code)
			}
			if names := left(t); len(names) > 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
	refused("without a control plane", options(t, "/bin/ccm"), "no Node has the label", finding.ExitRefused)
	(&kubelet{status: running}).start(t)
	of := func(config *rest.Config) Options {
		o := options(t, "/bin/ccm")
		o.Cluster = config
		return o
	}
	const denied = "this user may not create clusterrolebindings, create clusterroles, create leases"
	refused("without permission", of(reader), denied, finding.ExitRefused)
	refused("an API server that cannot be asked", of(unreachable), "ask the API server for its version", 0)
	refused("no image", noImage, "the provider publishes no image", finding.ExitUsage)
	client := plane.Admin(t)
	patch := func(unschedulable bool) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "cp1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Spec.Unschedulable = unschedulable
		if _, err := client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(true)
	refused("every control plane is cordoned", options(t, "/bin/ccm"), "[cp1]", finding.ExitRefused)
	patch(false)
	forbidPods(t)
	refused("an admission that forbids the machine's network", options(t, "/bin/ccm"), "admission forbids it",
		finding.ExitRefused)
}

// forbidPods has an admission policy of the cluster's own, and waits until it counts.
func forbidPods(t *testing.T) {
	t.Helper()
	admission := plane.Admin(t).AdmissionregistrationV1()
	policies, bindings := admission.ValidatingAdmissionPolicies(), admission.ValidatingAdmissionPolicyBindings()
	const denial = "not the machine's network"
	meta := metav1.ObjectMeta{Name: "no-host-network"}
	pods := admissionv1.NamedRuleWithOperations{}
	pods.Operations = []admissionv1.OperationType{admissionv1.Create}
	pods.APIGroups, pods.APIVersions, pods.Resources = []string{""}, []string{"v1"}, []string{"pods"}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{pods}},
		Validations:      []admissionv1.Validation{{Expression: "!object.spec.hostNetwork", Message: denial}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
	binding.Spec.PolicyName = meta.Name
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		options := metav1.DeleteOptions{}
		err := errors.Join(bindings.Delete(ctx, meta.Name, options), policies.Delete(ctx, meta.Name, options))
		if err != nil {
			t.Error(err)
		}
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{
		HostNetwork: true, Containers: []corev1.Container{{Name: "x", Image: "x"}},
	}}
	pod.Spec.AutomountServiceAccountToken = new(false)
	for range 600 {
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := plane.Admin(t).CoreV1().Pods("default").Create(t.Context(), pod, dryRun)
		if err != nil && strings.Contains(err.Error(), denial) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the cluster's own policy is not in force")
}
