// Command translator lets MetalLB's own tests speak to ccmadm: it turns IPAddressPools, L2Advertisements,
// BGPAdvertisements and BGPPeers of namespace metallb-system into AddressPools and BGPPeers of ccmadm.
//
//	translator KUBECONFIG [INTERFACE]   the interface announces addresses of pools without an advertisement
//
// Reads MetalLB's objects and their Secrets. Writes AddressPools and BGPPeers, deletes those that it has written and
// MetalLB has no more, writes Secret kube-system/ccmadm-bgp, annotates Services with their pool as MetalLB does, and
// prints each change, and each field that has no counterpart, once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	namespace = "metallb-system"
	every     = 100 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "translator: error:", err)
		os.Exit(1)
	}
}

// translator has the clients of both sides.
type translator struct {
	theirs     dynamic.Interface
	kubernetes kubernetes.Interface
	ours       *objects.Client
	everywhere []string
	seen       source
	written    map[string]string // Kind/name to what was written last
	out        io.Writer
	said       string
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: translator KUBECONFIG [INTERFACE]")
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	config.QPS, config.Burst = 200, 200
	t := &translator{everywhere: args[1:], written: map[string]string{}, out: out}
	var errs [3]error
	t.theirs, errs[0] = dynamic.NewForConfig(config)
	t.kubernetes, errs[1] = kubernetes.NewForConfig(config)
	t.ours, errs[2] = objects.New(config)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	poke := t.watchPools(ctx)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := t.once(ctx); err != nil {
			t.say(err.Error())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poke:
		case <-ticker.C:
		}
	}
}

// watchPools says at once that pools have changed: a Service that comes next is not to have an address of a former one.
func (t *translator) watchPools(ctx context.Context) <-chan struct{} {
	poke := make(chan struct{}, 1)
	wake := func(any) {
		select {
		case poke <- struct{}{}:
		default: // somebody has
		}
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(t.theirs, 0, namespace, nil)
	pools := schema.GroupVersionResource{Group: "metallb.io", Version: "v1beta1", Resource: "ipaddresspools"}
	_, err := factory.ForResource(pools).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(_, o any) { wake(o) },
	})
	if err != nil {
		t.say(err.Error())
	}
	factory.Start(ctx.Done())
	return poke
}

// once writes what differs. What has no counterpart stops nothing.
func (t *translator) once(ctx context.Context) error {
	if err := t.nameServicePools(ctx); err != nil {
		return err
	}
	from, err := t.read(ctx)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(from, t.seen) { // a test is writing: MetalLB, too, takes in what is written at once
		t.seen = from
		return t.deletePools(ctx, from)
	}
	to, missing := translate(from, t.everywhere)
	if err := t.writePasswords(ctx, to.passwords); err != nil {
		return err
	}
	return errors.Join(
		missing,
		write(ctx, t, "AddressPool", t.ours.AddressPools, to.pools),
		write(ctx, t, "BGPPeer", t.ours.BGPPeers, to.peers),
	)
}

func (t *translator) say(line string) {
	if line != t.said {
		fmt.Fprintln(t.out, time.Now().UTC().Format("15:04:05.000"), line)
	}
	t.said = line
}

func (t *translator) read(ctx context.Context) (source, error) {
	s := source{passwords: map[string]string{}}
	err := errors.Join(
		list(ctx, t.theirs, "v1beta1", "ipaddresspools", &s.pools), list(ctx, t.theirs, "v1beta1", "l2advertisements", &s.l2),
		list(ctx, t.theirs, "v1beta1", "bgpadvertisements", &s.bgp), list(ctx, t.theirs, "v1beta2", "bgppeers", &s.peers),
		list(ctx, t.theirs, "v1beta1", "bfdprofiles", &s.bfd), list(ctx, t.theirs, "v1beta1", "communities", &s.communities),
	)
	if err != nil {
		return s, err
	}
	secrets, err := t.kubernetes.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("list Secrets of %s: %w", namespace, err)
	}
	for _, secret := range secrets.Items {
		s.passwords[secret.Name] = string(secret.Data["password"])
	}
	return s, nil
}

func list[T any](ctx context.Context, client dynamic.Interface, version, resource string, into *[]T) error {
	kind := schema.GroupVersionResource{Group: "metallb.io", Version: version, Resource: resource}
	found, err := client.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	for _, item := range found.Items {
		content, err := item.MarshalJSON()
		if err != nil {
			return err
		}
		var one T
		if err := json.Unmarshal(content, &one); err != nil {
			return fmt.Errorf("read %s/%s: %w", resource, item.GetName(), err)
		}
		*into = append(*into, one)
	}
	return nil
}
