package lbtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
)

// The two Services of a check. Each check has the same names: an implementation may keep an address for a Service of that name.
const (
	first  = "first"
	second = "second"
)

// wanted is a Service that a check makes. Its zero value is TCP with policy Cluster.
type wanted struct {
	name     string
	protocol string
	local    bool
	affinity bool
	dual     bool
	// port is the next unused one without it.
	port int32
	// address is asked for by spec.loadBalancerIP; annotations are added.
	address     string
	annotations map[string]string
}

// probe is one check at work: its Services, and what it counts.
type probe struct {
	*suite
	made []string
	// counting guards lost, since clients ask at once.
	counting sync.Mutex
	lost     int
	notes    []string
}

// balancer is a Service with its addresses.
type balancer struct {
	*corev1.Service
	hosts []string
}

func (b *balancer) protocol() string { return string(b.Spec.Ports[0].Protocol) }

// target is the first address with the port. A Service with the addresses of Nodes has several.
func (b *balancer) target() string { return withPort(b.hosts[0], b.Spec.Ports[0].Port) }

func withPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

func (s *suite) service(w wanted) *corev1.Service {
	annotations := maps.Clone(s.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, w.annotations)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: w.name, Namespace: s.Namespace, Labels: s.labels(), Annotations: annotations,
	}}
	svc.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Selector: s.serverLabels(), LoadBalancerIP: w.address,
		Ports: []corev1.ServicePort{{
			Name: "test", Port: w.port, TargetPort: intstr.FromInt32(serverPort), Protocol: corev1.Protocol(w.protocol),
		}},
	}
	if s.Class != "" {
		svc.Spec.LoadBalancerClass = &s.Class
	}
	if w.local {
		svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if w.affinity {
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	if w.dual {
		svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
	}
	return svc
}

// createService makes a Service, and does not wait.
func (p *probe) createService(ctx context.Context, w wanted) (*corev1.Service, error) {
	w.name, w.protocol = cmp.Or(w.name, first), cmp.Or(w.protocol, traffic.TCP)
	if w.port == 0 {
		w.port = p.port
		p.port++
	}
	svc := p.service(w)
	p.made = append(p.made, w.name)
	err := p.create(ctx, "Service/"+p.Namespace+"/"+w.name, func(ctx context.Context) error {
		_, err := p.client.CoreV1().Services(p.Namespace).Create(ctx, svc, p.createOptions())
		return err
	})
	quota := err != nil && strings.Contains(err.Error(), "exceeded quota")  // which is no load balancer's
	if (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) && !quota { // a webhook or a policy of the implementation
		return nil, failf("%w", err)
	}
	return svc, err
}

// balanced makes a Service, and waits for an address.
func (p *probe) balanced(ctx context.Context, w wanted) (*balancer, error) {
	svc, err := p.createService(ctx, w)
	if err != nil {
		return nil, err
	}
	return p.addressed(ctx, svc.Name, func(*corev1.Service) bool { return true })
}

// answering is balanced, and waits until every client gets answers.
func (p *probe) answering(ctx context.Context, w wanted) (*balancer, error) {
	b, err := p.balanced(ctx, w)
	if err != nil {
		return nil, err
	}
	return b, p.reachable(ctx, b)
}

// addressed waits until a Service has an address, and what else is wanted of it.
func (p *probe) addressed(ctx context.Context, name string, also func(*corev1.Service) bool) (*balancer, error) {
	started := time.Now()
	for {
		svc, err := p.getService(ctx, name)
		if err != nil {
			return nil, err
		}
		if hosts := hostsOf(svc); len(hosts) > 0 && also(svc) {
			p.recognize(svc)
			return &balancer{svc, hosts}, nil
		} else if time.Since(started) > p.Wait {
			if len(hosts) > 0 {
				return &balancer{svc, hosts}, failf("Service %s has %v after %s%s", name, hosts, p.Wait, whyNot(svc))
			}
			return nil, failf("Service %s has no address after %s%s", name, p.Wait, whyNot(svc))
		}
		if err := pause(ctx, often); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// whyNot is what conditions say against a Service.
func whyNot(svc *corev1.Service) string {
	var text strings.Builder
	for _, c := range svc.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			fmt.Fprintf(&text, "; condition %s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return finding.Clean(text.String())
}

func hostsOf(svc *corev1.Service) (hosts []string) {
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if host := cmp.Or(ingress.IP, ingress.Hostname); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// isIPv6 is true for an address of that family; a host name has none.
func isIPv6(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().Is6()
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func (s *suite) getService(ctx context.Context, name string) (svc *corev1.Service, err error) {
	err = s.api.do(ctx, "get Service/"+s.Namespace+"/"+name, func(ctx context.Context) (err error) {
		svc, err = s.client.CoreV1().Services(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return svc, err
}

func (s *suite) listServices(ctx context.Context) (list []corev1.Service, err error) {
	err = s.api.do(ctx, "list Services in "+s.Namespace, func(ctx context.Context) error {
		found, err := s.client.CoreV1().Services(s.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			list = found.Items
		}
		return err
	})
	return list, err
}

// patch changes fields of a Service, by a merge patch.
func (s *suite) patch(ctx context.Context, name string, kind types.PatchType, patch string) error {
	return s.api.do(ctx, "patch Service/"+s.Namespace+"/"+name, func(ctx context.Context) error {
		_, err := s.client.CoreV1().Services(s.Namespace).Patch(ctx, name, kind, []byte(patch),
			metav1.PatchOptions{FieldManager: v1alpha1.FieldManager})
		return err
	})
}

func (s *suite) deleteService(ctx context.Context, name string) error {
	return s.api.do(ctx, "delete Service/"+s.Namespace+"/"+name, func(ctx context.Context) error {
		err := s.client.CoreV1().Services(s.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// removeService deletes a Service, and waits until it is gone: its address is given back then.
func (s *suite) removeService(ctx context.Context, name string) error {
	if err := s.deleteService(ctx, name); err != nil {
		return err
	}
	started := time.Now()
	for {
		svc, err := s.getService(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Since(started) > s.Wait {
			return failf("Service %s was deleted, and is still there after %s; finalizers %v keep it", name, s.Wait, svc.Finalizers)
		}
		if err := pause(ctx, often); err != nil {
			return err
		}
	}
}

// removeServices removes those of the check.
func (p *probe) removeServices(ctx context.Context) (err error) {
	for _, name := range p.made {
		if removed := p.removeService(ctx, name); err == nil {
			err = removed
		}
	}
	return err
}

func (p *probe) note(format string, args ...any) {
	p.notes = append(p.notes, finding.Clean(fmt.Sprintf(format, args...)))
}
