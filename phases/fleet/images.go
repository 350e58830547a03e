package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// imagesTake is how long a machine may take to receive an archive and import it.
const imagesTake = 30 * time.Minute

// ImageDelivery brings an archive of images to the machines of nodes, and has it imported there by `ccmadm images load`.
// Over SSH the archive is the standard input of that command; a pod gets it from this process by HTTP, and compares its digest.
type ImageDelivery struct {
	Env    *workflow.Env
	Client kubernetes.Interface
	Remote Remote
	// File is the archive, which stays open, and Digest its SHA-256 in hexadecimal digits.
	File   *os.File
	Digest string
	// Address is where pods reach this process: a host name or an IP address, without a port.
	Address string
	// Here imports it on this machine.
	Here func(context.Context) error
}

// Deliver goes to all nodes that are not skipped, Remote.Parallel at a time. One that fails stops no other. The error names
// those that failed, and in its hint those that are done.
func (d ImageDelivery) Deliver(ctx context.Context, plan []*Node) error {
	url := ""
	if d.Remote.Via == ViaPods {
		served, stop, err := serve(ctx, d.File, d.Address)
		if err != nil {
			return err
		}
		defer stop()
		url = served
	}
	var mu sync.Mutex
	var failed []FailedNode
	var done []string
	var all errgroup.Group
	all.SetLimit(max(d.Remote.Parallel, 1))
	for _, n := range plan {
		if n.Skipped {
			d.Env.Sayf("%s: skipped", n.Name)
			continue
		}
		all.Go(func() error {
			err := d.to(ctx, n, plan, url)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, FailedNode{n, err})
			} else {
				done = append(done, n.Name)
			}
			return nil
		})
	}
	_ = all.Wait() // none returns an error
	if len(failed) == 0 {
		return nil
	}
	slices.Sort(done)
	slices.SortStableFunc(failed, func(a, b FailedNode) int { return strings.Compare(a.Name, b.Name) })
	last := "no node has the images yet; run the same command again"
	if len(done) > 0 {
		last = "these nodes have the images: " + strings.Join(done, ", ") + "; run the same command again: it leaves them as they are"
	}
	return StoppedAt(failed, nil, last)
}

func (d ImageDelivery) to(ctx context.Context, n *Node, plan []*Node, url string) error {
	switch {
	case n.Here:
		return d.Here(ctx)
	case d.Remote.Via == ViaPods && !n.Ready:
		return errors.New("it is not Ready: its kubelet starts no pod")
	case d.Remote.Via == ViaPods:
		pods := &Pods{
			Env: d.Env, Client: d.Client, Image: d.Remote.Image, Prefix: ImagesPrefix, Takes: imagesTake, Grace: 10 * time.Second,
			Begins: UpgradeBegins, LogTimeout: d.Remote.LogTimeout,
		}
		return pods.Run(ctx, n, Command{"images", "load", url, "--sha256=" + d.Digest})
	}
	if other := n.sharesAddress(plan); other != "" {
		return finding.Refusedf("its address %s is also that of Node/%s: it is unknown which of them SSH reaches", n.IP, other).
			WithHint("where it is not that of Node/%s: --skip %s", other, other)
	}
	wanted, err := ExpectedMachine(d.Env, n)
	if err != nil {
		return err
	}
	task := append(Command{"images", "load", "-", "--sha256=" + d.Digest}, wanted.Flags()...)
	return SSH{Env: d.Env, User: d.Remote.SSHUser, Takes: imagesTake}.Feed(ctx, n, task, io.NewSectionReader(d.File, 0, math.MaxInt64))
}

// refuseLoading finds a pod in which another run imports images on the node, or is about to: its pod is not to be removed while it
// works. One that a killed run has left ends once it no longer reaches that run; one that is pending for longer than a run waits for
// it is nobody's.
func (n *Node) refuseLoading(pods []corev1.Pod) error {
	for i := range pods {
		begins := pods[i].Status.Phase == corev1.PodPending && time.Since(pods[i].CreationTimestamp.Time) < UpgradeBegins
		if begins || atWork(&pods[i]) {
			return atWorkError(n, &pods[i], "of a run that is under way or was cut short")
		}
	}
	return nil
}

// serve gives one file to clients that know its URL, which has a random path, until it is stopped.
func serve(ctx context.Context, file *os.File, address string) (url string, stop func(), err error) {
	info, err := file.Stat()
	if err != nil {
		return "", nil, fmt.Errorf("serve images to pods: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":0")
	if err != nil {
		return "", nil, fmt.Errorf("serve %s to pods: %w", file.Name(), err)
	}
	secret := "/" + rand.Text()
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != secret {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/x-tar")
			http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(file, 0, info.Size()))
		}),
	}
	go func() { _ = server.Serve(listener) }() // it ends when it is closed
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", nil, errors.Join(err, server.Close())
	}
	return "http://" + net.JoinHostPort(address, port) + secret, func() { _ = server.Close() }, nil
}
