package agent

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/bgp"
	"github.com/ccmadm/ccmadm/provider/announce/hook"
	"github.com/ccmadm/ccmadm/provider/announce/l2"
)

// newAnnouncers makes one for each level, and what calls hooks, which adds to the report of the others. They have a part in the report.
func newAnnouncers(ctx context.Context, config *rest.Config, o Options, c *caches, report *reporter) ([]announce.Announcer, error) {
	key, err := os.ReadFile(o.HeartbeatKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--heartbeat-key-file: %w", err)
	}
	events, err := newEvents(ctx, config, o.NodeName)
	if err != nil {
		return nil, err
	}
	var announcer *l2.Announcer
	caller := hook.New(hook.Options{
		Tokens: c.tokens.get, Owns: func(address netip.Addr) bool { return announcer.Owns(address) }, Changed: report.announced,
		Failed:  func(claim announce.Claim, message string) { warnOfHook(events, c, claim, message) },
		Observe: func(string, time.Duration) {}, Log: klog.FromContext(ctx).WithName("hook"),
	})
	if o.CountHooks != nil {
		caller.Observe = o.CountHooks(caller.Failing)
	}
	ownerChanged := func() {}
	sender, err := newEgress(o, c, report.changed, func(address netip.Addr) bool { return announcer.Announces(address) })
	if err != nil { // a kernel without netfilter: addresses are announced without it
		klog.ErrorS(err, "Packets of pods cannot leave with the addresses of their Services")
	} else {
		ownerChanged = sender.OwnerChanged
	}
	announcer = l2.New(l2.Options{
		Node: o.NodeName, Key: key, Listen: o.Address, Port: o.HeartbeatPort, KeepVoters: true,
		Changed: func() { report.announced(); ownerChanged() },
		Log:     klog.FromContext(ctx).WithName("l2"),
		Conflict: func(claim announce.Claim, conflict v1alpha1.AddressConflict) {
			warnOfConflict(events, c, claim, conflict)
		},
		Taken: func(address netip.Addr) { caller.Take(address); ownerChanged() },
		Lost:  func(address netip.Addr) { caller.Lose(address); ownerChanged() },
	})
	if o.Count != nil {
		o.Count(announcer.Counts)
	}
	announcers := []announce.Announcer{announcer, bgp.New(klog.FromContext(ctx).WithName("bgp"), report.announced), caller}
	for _, a := range announcers {
		report.sources = append(report.sources, a.Report)
		report.announcing = append(report.announcing, a.Report)
	}
	report.written = append(report.written, announcer.Written)
	if sender != nil {
		announcers = append(announcers, sender)
		report.sources = append(report.sources, sender.Report)
	}
	return announcers, nil
}

// newEvents makes a recorder that stops with ctx.
func newEvents(ctx context.Context, config *rest.Config, node string) (record.EventRecorder, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: v1alpha1.AgentName, Host: node}), nil
}

// warnOfConflict leaves an Event on each Service of the address.
func warnOfConflict(events record.EventRecorder, c *caches, claim announce.Claim, conflict v1alpha1.AddressConflict) {
	for _, service := range servicesOf(c, claim) {
		events.Eventf(service, corev1.EventTypeWarning, "AddressConflict",
			"%s answers for %s on %s, and is no agent of this cluster: remove the address from that machine, or exclude it in AddressPool %s",
			conflict.MAC, conflict.Address, conflict.Interface, claim.Pool)
	}
}

// warnOfHook leaves one on each of them, too.
func warnOfHook(events record.EventRecorder, c *caches, claim announce.Claim, message string) {
	for _, service := range servicesOf(c, claim) {
		events.Eventf(service, corev1.EventTypeWarning, "HookFailed",
			"the hook of AddressPool %s for %s %s: the provider may send the address to another machine", claim.Pool, claim.Address, message)
	}
}

// servicesOf are the Services of an address that the agent knows.
func servicesOf(c *caches, claim announce.Claim) []runtime.Object {
	var list []runtime.Object
	for _, name := range claim.Services {
		object, there, _ := c.services.GetStore().GetByKey(name.String()) // a store of client-go has no error here
		if service, is := object.(runtime.Object); there && is {
			list = append(list, service)
		}
	}
	return list
}
