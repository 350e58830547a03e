package lbtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

const (
	// serverPort is where server pods answer, by TCP and UDP, and clientPort where client pods are asked to send.
	serverPort = 8080
	clientPort = 8081
	// serverCount is how many server pods there are: a Service with one says nothing about affinity.
	serverCount = 2
	// startPatience has room for an image that is pulled.
	startPatience = 5 * time.Minute
	// unprivileged is a user ID without a meaning.
	unprivileged = 65532
)

// The kinds of pods, values of [v1alpha1.NameLabel].
const (
	serverKind = "ccmadm-lb-test-server"
	clientKind = "ccmadm-lb-test-client"
)

// serverLabels select the server pods.
func (s *suite) serverLabels() map[string]string {
	return map[string]string{v1alpha1.LBTestLabel: s.id, v1alpha1.NameLabel: serverKind}
}

// readNodes reads the Nodes once.
func (s *suite) readNodes(ctx context.Context) error {
	return s.api.do(ctx, "list Nodes", func(ctx context.Context) error {
		list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil {
			s.nodes = list.Items
		}
		return err
	})
}

// createPods makes server pods and client pods, and waits until they are Ready.
func (s *suite) createPods(ctx context.Context) error {
	usable := s.nodes.usable()
	if len(usable) == 0 {
		return finding.Errorf("place server pods: none of the %d Nodes is Ready, schedulable and runs Linux", len(s.nodes))
	}
	workers := usable.workers()
	var pods []*corev1.Pod
	for i := range serverCount {
		name := fmt.Sprintf("server-%d", i+1)
		pods = append(pods, s.pod(name, serverKind, workers[i%len(workers)].Name, serverPort, "server"))
		s.servers = append(s.servers, name)
	}
	if len(usable) > s.MaxNodes {
		s.tell("note: client pods run on %d of %d Nodes (--max-nodes)", s.MaxNodes, len(usable))
		usable = usable[:s.MaxNodes]
	}
	s.report.Nodes = []string{}
	for i, n := range usable {
		name := fmt.Sprintf("client-%d", i+1)
		pods = append(pods, s.pod(name, clientKind, n.Name, clientPort, "client"))
		s.pods = append(s.pods, inPod{suite: s, pod: name, node: n.Name})
		s.report.Nodes = append(s.report.Nodes, n.Name)
	}
	s.tell("starting %d server pods and %s in namespace %s, image %s",
		serverCount, finding.Count(len(usable), "client pod"), s.Namespace, s.Image)
	for _, pod := range pods {
		if err := s.createPod(ctx, pod); err != nil {
			return err
		}
	}
	return s.started(ctx, len(pods))
}

// createPod also waits for the namespace's own ServiceAccount, which a controller makes.
func (s *suite) createPod(ctx context.Context, pod *corev1.Pod) error {
	for began := time.Now(); ; {
		err := s.create(ctx, "Pod/"+s.Namespace+"/"+pod.Name, func(ctx context.Context) error {
			_, err := s.client.CoreV1().Pods(s.Namespace).Create(ctx, pod, s.createOptions())
			return err
		})
		early := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount") && time.Since(began) < startPatience/10
		switch {
		case err == nil:
			return nil
		case early:
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			return finding.Refusedf("%w", err).
				WithHint("the cluster's admission forbids this pod, which fulfills the Pod Security Standard restricted")
		default:
			return err
		}
		if err := pause(ctx, often); err != nil {
			return err
		}
	}
}

// pod is one that runs ccmadm by the Pod Security Standard "restricted". It has no token of the API server.
func (s *suite) pod(name, kind, node string, port int, command string) *corev1.Pod {
	labels := s.labels()
	labels[v1alpha1.NameLabel] = kind
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	health := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: traffic.HealthPath, Port: intstr.FromInt(port)}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: new(int64(unprivileged)), RunAsGroup: new(int64(unprivileged)), RunAsNonRoot: new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: command, Image: s.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: []string{"lb", "test", command, "--run-id=" + s.id, "--port=" + strconv.Itoa(port)},
				Env:  []corev1.EnvVar{field("POD_NAME", "metadata.name"), field("NODE_NAME", "spec.nodeName")},
				Ports: []corev1.ContainerPort{
					{Name: "tcp", ContainerPort: int32(port)}, {Name: "udp", ContainerPort: int32(port), Protocol: corev1.ProtocolUDP},
				},
				ReadinessProbe: &corev1.Probe{ProbeHandler: health, PeriodSeconds: 1},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// started waits until all pods are Ready, and ends early where an image or a container cannot be had.
func (s *suite) started(ctx context.Context, want int) error {
	for began := time.Now(); ; {
		var list []corev1.Pod
		err := s.api.do(ctx, "list Pods in "+s.Namespace, func(ctx context.Context) error {
			found, err := s.client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
			if err == nil {
				list = found.Items
			}
			return err
		})
		if err != nil {
			return err
		}
		ready, why := 0, error(nil)
		if len(list) < want {
			why = fmt.Errorf("of %d pods %d were deleted by another program", want, want-len(list))
		}
		for i := range list {
			if isReady(&list[i]) {
				ready++
			} else if why == nil {
				why = s.notReady(&list[i])
			}
		}
		if ready == want {
			return nil
		}
		if errors.Is(why, nodes.ErrImage) || errors.Is(why, nodes.ErrContainer) || time.Since(began) > startPatience {
			return finding.Errorf("start the test's pods, of which %d of %d are Ready: %w", ready, want, why).
				WithHint("--image names one whose entrypoint is ccmadm of this version")
		}
		if err := pause(ctx, often); err != nil {
			return err
		}
	}
}

// notReady is why a pod is not Ready, as far as its status says.
func (s *suite) notReady(pod *corev1.Pod) error {
	why := nodes.NotStarting(pod)
	if why == nil {
		why = fmt.Errorf("phase %s %s %s", pod.Status.Phase, finding.Clean(pod.Status.Reason), finding.Clean(pod.Status.Message))
	}
	return fmt.Errorf("of Pod/%s on Node/%s: %w", pod.Name, pod.Spec.NodeName, why)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
