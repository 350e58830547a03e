package lbtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
	"github.com/ccmadm/ccmadm/doctor/network"
)

// While an owner moves, the client outside asks for disruptedFor; the agent's pod is deleted disruptAfter its beginning.
const (
	disruptedFor = 30 * time.Second
	disruptAfter = 3 * time.Second
)

// ownerMoves restarts the agent on the Node that announces the address. Only a client outside sees what that does: packets of pods
// take no part in announcements.
func ownerMoves(ctx context.Context, p *probe) error {
	switch {
	case p.outside == nil:
		return skipf("only a client outside sees it, and --outside=false leaves that out")
	case p.report.Machine != "":
		return skipf("only a client outside sees it, and this machine is Node %s", p.report.Machine)
	}
	b, err := p.balanced(ctx, wanted{})
	if err != nil {
		return err
	}
	if p.implementation.name != implementations()[0].name {
		return skipf("only agents of provider onprem are restarted")
	}
	if err := p.reachable(ctx, b); err != nil {
		return err
	}
	before, err := p.announcers(ctx, b.Name)
	if err != nil {
		return err
	}
	agent, err := p.agentOn(ctx, before[0])
	if err != nil {
		return err
	}
	if err := p.disrupted(ctx, b, agent); err != nil {
		return err
	}
	if err := p.reachable(ctx, b); err != nil {
		return err
	}
	after, err := p.announcers(ctx, b.Name)
	if err != nil {
		return err
	}
	p.note("announced by %s, then by %s", strings.Join(before, ", "), strings.Join(after, ", "))
	return p.agentBack(ctx, agent)
}

// disrupted deletes a pod while requests are sent, and counts those that are lost.
func (p *probe) disrupted(ctx context.Context, b *balancer, agent *corev1.Pod) error {
	request := p.request(b.protocol(), b.target(), int(disruptedFor/requestEvery))
	var outcome *traffic.Outcome
	var asked, deleted error
	var both sync.WaitGroup
	both.Go(func() { outcome, asked = p.outside.ask(ctx, request) })
	both.Go(func() {
		if deleted = pause(ctx, disruptAfter); deleted == nil {
			deleted = p.deleteAgent(ctx, agent)
		}
	})
	both.Wait()
	if asked != nil {
		return asked
	}
	if deleted != nil {
		return deleted
	}
	p.lose(outcome.Lost())
	p.note("of %d requests %d were lost; the longest outage took %.1f s", outcome.Sent, outcome.Lost(), outcome.Outage.Seconds())
	return nil
}

func (p *probe) deleteAgent(ctx context.Context, agent *corev1.Pod) error {
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(agent.UID))}
	return p.api.do(ctx, "delete Pod/"+agent.Namespace+"/"+agent.Name, func(ctx context.Context) error {
		err := p.client.CoreV1().Pods(agent.Namespace).Delete(ctx, agent.Name, only)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a try before was carried out
			return nil
		}
		return err
	})
}

// announcers waits until agents report that they announce a Service, and returns their Nodes.
func (p *probe) announcers(ctx context.Context, name string) ([]string, error) {
	full := p.Namespace + "/" + name
	for started := time.Now(); ; {
		var found network.Balancer
		err := p.api.do(ctx, "read what agents announce", func(ctx context.Context) error {
			snapshot, err := network.Read(ctx, p.network)
			if err != nil {
				return err
			}
			list := snapshot.Balancers()
			if i := slices.IndexFunc(list, func(b network.Balancer) bool { return b.Service == full }); i >= 0 {
				found = list[i]
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case found.Level == v1alpha1.LevelNodeIP:
			return nil, skipf("no agent announces the addresses of Nodes")
		case len(found.Announcers) > 0:
			return found.Announcers, nil
		case time.Since(started) > p.Wait:
			return nil, failf("no agent reports within %s that it announces Service %s", p.Wait, name)
		}
		if err := pause(ctx, often); err != nil {
			return nil, err
		}
	}
}

// agentOn is the pod of the agent on a Node.
func (p *probe) agentOn(ctx context.Context, node string) (*corev1.Pod, error) {
	list, err := p.agents(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Spec.NodeName == node && list[i].DeletionTimestamp == nil {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("find the agent's pod on Node/%s: there is none", node)
}

func (p *probe) agents(ctx context.Context) (list []corev1.Pod, err error) {
	labelled := metav1.ListOptions{LabelSelector: v1alpha1.NameLabel + "=" + v1alpha1.AgentName}
	err = p.api.do(ctx, "list the agents' pods", func(ctx context.Context) error {
		found, err := p.client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, labelled)
		if err == nil {
			list = found.Items
		}
		return err
	})
	return list, err
}

// agentBack waits until the Node has an agent again.
func (p *probe) agentBack(ctx context.Context, former *corev1.Pod) error {
	for started := time.Now(); ; {
		list, err := p.agents(ctx)
		if err != nil {
			return err
		}
		back := slices.ContainsFunc(list, func(pod corev1.Pod) bool {
			return pod.Spec.NodeName == former.Spec.NodeName && pod.UID != former.UID && isReady(&pod)
		})
		if back {
			return nil
		}
		if time.Since(started) > p.Wait {
			return failf("Node %s has no Ready agent %s after its pod was deleted", former.Spec.NodeName, p.Wait)
		}
		if err := pause(ctx, often); err != nil {
			return err
		}
	}
}
